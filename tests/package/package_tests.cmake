# Tests of the installed package. One test installs the package and moves it. Some check the installed files. The others
# configure, build and run the outside project in this folder with it. LD_BIND_NOW binds every symbol at load time, so
# that a missing one fails even if nothing calls it.

set(package_dir "${CMAKE_CURRENT_BINARY_DIR}/package")
set(prefix "${package_dir}/moved")
set(scripts "${CMAKE_CURRENT_SOURCE_DIR}/package")

function(jitstep_package_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABELS" "COMMAND")
  add_test(NAME package.${name} COMMAND ${arg_COMMAND})
  set_tests_properties(package.${name} PROPERTIES
    FIXTURES_REQUIRED package
    ENVIRONMENT "JITSTEP_CACHE_DIR=${package_dir}/cache;LD_BIND_NOW=1"
    TIMEOUT 1200
    LABELS "${arg_LABELS}")
endfunction()

add_test(NAME package.install_and_move
  COMMAND "${CMAKE_COMMAND}" "-DBUILD=${PROJECT_BINARY_DIR}" "-DFIRST=${package_dir}/installed"
          "-DTHEN=${prefix}" -P "${scripts}/install_and_move.cmake")
set_tests_properties(package.install_and_move PROPERTIES FIXTURES_SETUP package LABELS cpu TIMEOUT 300)

# ---- installed files ---------------------------------------------------------------------------

set(libdir "${prefix}/${CMAKE_INSTALL_LIBDIR}")
set(includedir "${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
if(BUILD_SHARED_LIBS)
  jitstep_package_test(exports_public_names_only LABELS cpu
    COMMAND "${scripts}/check_exports.sh" "${libdir}" "${includedir}/jitstep"
            "${PROJECT_SOURCE_DIR}/src")
  jitstep_package_test(has_sonames_and_run_paths LABELS cpu
    COMMAND "${scripts}/check_libraries.sh" "${libdir}"
            "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}" "${LibTorch_LIBRARY_DIR}")
endif()
jitstep_package_test(names_no_folder_of_the_build LABELS cpu
  COMMAND "${scripts}/check_paths.sh" "${prefix}" "${LibTorch_ROOT}"
          "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}" "${package_dir}/installed")
set(check_headers "${scripts}/check_headers.sh" "${includedir}" "${CMAKE_CXX_COMPILER}")
# By default, the tests compile the headers of the source tree alone, and the installed ones together.
jitstep_package_test(headers_compile_alone_without_torch LABELS "cpu;long" COMMAND ${check_headers} alone)
jitstep_package_test(headers_say_that_they_need_cpp20 LABELS cpu COMMAND ${check_headers} too_old)
if(JITSTEP_BUILD_TORCH)
  jitstep_package_test(headers_compile_together_with_torch LABELS cpu
    COMMAND ${check_headers} together "${LibTorch_ROOT}")
  jitstep_package_test(headers_compile_alone_with_torch LABELS "cpu;long"
    COMMAND ${check_headers} alone "${LibTorch_ROOT}")
endif()

if(TARGET jitstep_tool)
  jitstep_package_test(has_the_tool LABELS cpu
    COMMAND "${prefix}/${CMAKE_INSTALL_BINDIR}/jitstep" cache verify)
  jitstep_package_test(has_a_tool_that_checks_rules LABELS cpu
    COMMAND "${prefix}/${CMAKE_INSTALL_BINDIR}/jitstep" check "${PROJECT_SOURCE_DIR}/examples/signum.cuh"
            --states fp32 --weights stochastic --target cpu)
  if(TARGET jitstep_convert)
    jitstep_package_test(has_a_tool_that_converts_state LABELS cpu
      COMMAND "${prefix}/${CMAKE_INSTALL_BINDIR}/jitstep" convert --help)
  endif()
  add_test(NAME package.installs_without_the_tool
    COMMAND "${CMAKE_COMMAND}" "-DBUILD=${PROJECT_BINARY_DIR}" "-DPREFIX=${package_dir}/without_tool"
            "-DTOOL=$<TARGET_FILE:jitstep_tool>" -P "${scripts}/install_without_the_tool.cmake")
  set_tests_properties(package.installs_without_the_tool PROPERTIES LABELS cpu)
endif()

# The installed libraries with a device: the CUDA driver that executes PTX.
function(jitstep_installed_on_the_ptx_driver name program filter)
  jitstep_package_test(${name} LABELS cpu
    COMMAND "${scripts}/run_with_installed.sh" "${libdir}" "$<TARGET_FILE:${program}>" "--gtest_filter=${filter}")
  set_property(TEST package.${name} APPEND PROPERTY ENVIRONMENT ${test_environment})
endfunction()

if(BUILD_SHARED_LIBS)
  jitstep_installed_on_the_ptx_driver(follows_a_trajectory_on_the_ptx_driver test_ptx_golden "*/adamw_default")
  # test_optim_cuda exists only for a torch without CUDA, for which the tests provide the device.
  if(TARGET test_optim_cuda)
    jitstep_installed_on_the_ptx_driver(steps_cuda_tensors_on_the_ptx_driver test_optim_cuda "Of/CudaFrontEnd.*/0")
  endif()
endif()

# ---- missing versions and components -----------------------------------------------------------

# Configures a project that requests something that does not exist. CMake must end with `status`, 1 for an error, and
# its output must match `message`. Further arguments are options.
function(jitstep_refusal_test name ask status message)
  jitstep_package_test(${name} LABELS cpu
    COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/support/expect_output.sh" ${status} "${message}"
            "${CMAKE_COMMAND}" -S "${scripts}/refusal" -B "${package_dir}/${name}"
            -G "${CMAKE_GENERATOR}" "-DCMAKE_PREFIX_PATH=${prefix}" "-DASK=${ask}" ${ARGN})
endfunction()

jitstep_refusal_test(another_version_is_refused "0.2" 1 "compatible with requested version \"0.2\"")
jitstep_refusal_test(an_unknown_component_is_refused "COMPONENTS python" 1
  "jitstep has no component \"python\"")
jitstep_refusal_test(a_folder_without_torch_is_refused "" 1
  "No LibTorch was found in /nowhere" "-DTorch_DIR=/nowhere")
jitstep_refusal_test(an_optional_component_may_be_missing "COMPONENTS jit OPTIONAL_COMPONENTS jitstep python" 0
  "Configuring done" "-DTorch_DIR=/nowhere")

# The files of a LibTorch that the package configuration reads.
function(jitstep_pretend_libtorch folder version)
  string(REPLACE "." ";" numbers "${version}")
  set(text "")
  set(names MAJOR MINOR PATCH)
  foreach(name number IN ZIP_LISTS names numbers)
    string(APPEND text "#define TORCH_VERSION_${name} ${number}\n")
  endforeach()
  file(WRITE "${folder}/include/torch/csrc/api/include/torch/torch.h" "")
  file(WRITE "${folder}/include/torch/headeronly/version.h" "${text}")
  file(WRITE "${folder}/lib/libtorch.so" "")
  file(WRITE "${folder}/lib/libtorch_cpu.so" "")
endfunction()

if(JITSTEP_BUILD_TORCH)
  jitstep_refusal_test(the_torch_of_the_build_is_found "" 0 "Configuring done")
  set(other_torch "${package_dir}/other_libtorch")
  jitstep_pretend_libtorch("${other_torch}" "2.5.1")
  jitstep_refusal_test(another_minor_version_of_torch_is_refused "" 1
    "built with LibTorch ${LibTorch_VERSION}.*2[.]5[.]1.*Torch_DIR" "-DTorch_DIR=${other_torch}")
endif()

# ---- outside projects --------------------------------------------------------------------------

# `name`: name of the test. `use`: jit or jitstep. Further arguments are options for the outside project.
function(jitstep_outside_test name use labels)
  jitstep_package_test(${name} LABELS "${labels}" COMMAND "${CMAKE_CTEST_COMMAND}"
    --build-and-test "${scripts}" "${package_dir}/${name}"
    --build-generator "${CMAKE_GENERATOR}"
    --build-makeprogram "${CMAKE_MAKE_PROGRAM}"
    --build-options
      "-DUSE=${use}"
      "-DEXAMPLES=${PROJECT_SOURCE_DIR}/examples"
      "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}"
      "-DCMAKE_CXX_FLAGS=${CMAKE_CXX_FLAGS}"
      ${ARGN}
    --test-command "${CMAKE_CTEST_COMMAND}" --output-on-failure)
endfunction()

set(no_torch -DCMAKE_DISABLE_FIND_PACKAGE_LibTorch=ON)
jitstep_outside_test(jit jit cpu "-DCMAKE_PREFIX_PATH=${prefix}" ${no_torch})
if(JITSTEP_BUILD_TORCH)
  set(torch_with_blank "${package_dir}/lib torch")
  file(MAKE_DIRECTORY "${package_dir}")
  file(CREATE_LINK "${LibTorch_ROOT}" "${torch_with_blank}" SYMBOLIC)
  jitstep_outside_test(jitstep jitstep cpu "-DCMAKE_PREFIX_PATH=${prefix}" "-DTorch_DIR=${torch_with_blank}")
endif()

# A subfolder compiles all of jitstep again. The check that it leaves the including project alone runs at configure
# time.
set(subdirectory "-DJITSTEP_SUBDIRECTORY=${PROJECT_SOURCE_DIR}" "-DJITSTEP_CCACHE=${JITSTEP_CCACHE}")
jitstep_package_test(subdirectory_leaves_the_project_alone LABELS cpu
  COMMAND "${CMAKE_COMMAND}" -S "${scripts}" -B "${package_dir}/subdirectory"
          -G "${CMAKE_GENERATOR}" "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}" -DUSE=jit
          "-DEXAMPLES=${PROJECT_SOURCE_DIR}/examples" ${subdirectory} -DJITSTEP_BUILD_TORCH=OFF ${no_torch})
jitstep_outside_test(subdirectory_jit jit "cpu;long" ${subdirectory} -DJITSTEP_BUILD_TORCH=OFF ${no_torch}
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0)
if(JITSTEP_BUILD_TORCH)
  jitstep_outside_test(subdirectory_jitstep jitstep "cpu;long" ${subdirectory}
    "-DTorch_DIR=${LibTorch_ROOT}")
endif()

# Static libraries, built in a subfolder, installed by the outside project, and used from the installation.
set(static_prefix "${package_dir}/static_installed")
jitstep_outside_test(static_subdirectory_jit jit "cpu;long" ${subdirectory}
  -DBUILD_SHARED_LIBS=OFF -DJITSTEP_BUILD_TORCH=OFF -DJITSTEP_INSTALL=ON ${no_torch})
set_tests_properties(package.static_subdirectory_jit PROPERTIES FIXTURES_SETUP static_build)
jitstep_package_test(static_install LABELS "cpu;long"
  COMMAND "${CMAKE_COMMAND}" --install "${package_dir}/static_subdirectory_jit"
          --prefix "${static_prefix}")
set_tests_properties(package.static_install PROPERTIES
  FIXTURES_REQUIRED static_build FIXTURES_SETUP static_package)
jitstep_outside_test(static_jit jit "cpu;long" "-DCMAKE_PREFIX_PATH=${static_prefix}" ${no_torch})
set_tests_properties(package.static_jit PROPERTIES FIXTURES_REQUIRED static_package)

# ---- shipped kernels ---------------------------------------------------------------------------

# A package with the kernel of an example, which then runs without a compiler.
if(TARGET jitstep_tool AND JITSTEP_BUILD_EXAMPLES)
  set(with_kernels "${package_dir}/with_kernels")
  file(WRITE "${package_dir}/specs.jsonl" "{\"rule\": \"${PROJECT_SOURCE_DIR}/examples/signum.cuh\"}\n")
  jitstep_package_test(is_built_with_kernels LABELS "cpu;long" COMMAND "${CMAKE_CTEST_COMMAND}"
    --build-and-test "${PROJECT_SOURCE_DIR}" "${with_kernels}"
    --build-generator "${CMAKE_GENERATOR}"
    --build-makeprogram "${CMAKE_MAKE_PROGRAM}"
    --build-options
      "-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}"
      "-DJITSTEP_THIRD_PARTY_DIR=${JITSTEP_THIRD_PARTY_DIR}"
      -DJITSTEP_BUILD_TORCH=OFF -DJITSTEP_BUILD_TESTS=OFF -DJITSTEP_BUILD_EXAMPLES=OFF
      "-DJITSTEP_SHIP_KERNELS=${package_dir}/specs.jsonl" -DJITSTEP_SHIP_CPUS=x86-64-v2
    --test-command "${CMAKE_COMMAND}" --install "${with_kernels}" --prefix "${with_kernels}/installed")
  set_tests_properties(package.is_built_with_kernels PROPERTIES FIXTURES_SETUP shipped_kernels)
  jitstep_package_test(brings_kernels_for_machines_without_a_compiler LABELS "cpu;long"
    COMMAND "${PROJECT_BINARY_DIR}/examples/plain_arrays")
  set(shipped "${with_kernels}/installed/${CMAKE_INSTALL_LIBDIR}/jitstep/kernels")
  set_tests_properties(package.brings_kernels_for_machines_without_a_compiler PROPERTIES
    FIXTURES_REQUIRED "package;shipped_kernels"
    ENVIRONMENT "JITSTEP_CXX=/no/compiler;JITSTEP_CACHE_DIR=${package_dir}/none;JITSTEP_CACHE_READONLY=${shipped}")
endif()
