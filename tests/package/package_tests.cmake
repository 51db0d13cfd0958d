# The install tree as an outside project sees it. One test installs, the others configure, build and
# run the project in this folder against it.

set(package_dir "${CMAKE_CURRENT_BINARY_DIR}/package")
set(prefix "${package_dir}/prefix")

add_test(NAME package.install
  COMMAND "${CMAKE_COMMAND}" --install "${PROJECT_BINARY_DIR}" --prefix "${prefix}")
set_tests_properties(package.install PROPERTIES FIXTURES_SETUP installed_package LABELS cpu TIMEOUT 300)

# `name`: of the test; `use`: jit or jitstep; further arguments are options for the outside project.
function(jitstep_add_package_test name use labels)
  add_test(NAME package.${name}
    COMMAND "${CMAKE_CTEST_COMMAND}"
      --build-and-test "${CMAKE_CURRENT_SOURCE_DIR}/package" "${package_dir}/${name}"
      --build-generator "${CMAKE_GENERATOR}"
      --build-makeprogram "${CMAKE_MAKE_PROGRAM}"
      --build-options
        "-DUSE=${use}"
        "-DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE}"
        "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}"
        "-DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS}"
        ${ARGN}
      --test-command "${package_dir}/${name}/consumer")
  set_tests_properties(package.${name} PROPERTIES
    FIXTURES_REQUIRED installed_package
    ENVIRONMENT "JITSTEP_CACHE_DIR=${package_dir}/cache"
    TIMEOUT 1200
    LABELS "${labels}")
endfunction()

set(no_torch -DCMAKE_DISABLE_FIND_PACKAGE_LibTorch=ON)
jitstep_add_package_test(jit jit "cpu" "-DCMAKE_PREFIX_PATH=${prefix}" ${no_torch})
jitstep_add_package_test(subdirectory jit "cpu;long" "-DJITSTEP_SUBDIRECTORY=${PROJECT_SOURCE_DIR}"
  -DJITSTEP_BUILD_TORCH=OFF ${no_torch})
if(JITSTEP_BUILD_TORCH)
  jitstep_add_package_test(jitstep jitstep "cpu" "-DCMAKE_PREFIX_PATH=${prefix}")
endif()
