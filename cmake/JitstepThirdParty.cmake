# Finds third-party libraries other than LibTorch: in the folder JITSTEP_THIRD_PARTY_DIR, if it is set and has them,
# else in installed packages.

# Defines `target` (header only) with `header` in the third-party folder, or finds `package`.
function(jitstep_header_library package target header debian_package)
  if(TARGET ${target})
    return()
  endif()
  if(JITSTEP_THIRD_PARTY_DIR)
    find_path(${package}_header_dir ${header} PATHS "${JITSTEP_THIRD_PARTY_DIR}"
              PATH_SUFFIXES include single_include ${package} ${package}/include NO_DEFAULT_PATH NO_CACHE)
    if(${package}_header_dir)
      add_library(${target} INTERFACE IMPORTED GLOBAL)
      target_include_directories(${target} SYSTEM INTERFACE "${${package}_header_dir}")
      return()
    endif()
  endif()
  find_package(${package} QUIET CONFIG)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "${header} not found. Run tools/setup.sh, or install the Debian package "
      "${debian_package}, or copy it to a folder and pass -DJITSTEP_THIRD_PARTY_DIR=<folder>.")
  endif()
  set_target_properties(${target} PROPERTIES IMPORTED_GLOBAL ON)
endfunction()

function(jitstep_find_googletest)
  if(TARGET GTest::gtest_main)
    return()
  endif()
  if(JITSTEP_THIRD_PARTY_DIR AND EXISTS "${JITSTEP_THIRD_PARTY_DIR}/googletest/CMakeLists.txt")
    set(INSTALL_GTEST OFF)
    set(BUILD_GMOCK OFF)
    add_subdirectory("${JITSTEP_THIRD_PARTY_DIR}/googletest" googletest EXCLUDE_FROM_ALL)
    return()
  endif()
  find_package(GTest QUIET)
  if(NOT TARGET GTest::gtest_main)
    message(FATAL_ERROR "GoogleTest not found. Run tools/setup.sh, or install the Debian package "
      "libgtest-dev, or copy its sources to <folder>/googletest and pass "
      "-DJITSTEP_THIRD_PARTY_DIR=<folder>, or build without tests: -DJITSTEP_BUILD_TESTS=OFF.")
  endif()
  set_target_properties(GTest::gtest GTest::gtest_main PROPERTIES IMPORTED_GLOBAL ON)
endfunction()

jitstep_header_library(nlohmann_json nlohmann_json::nlohmann_json nlohmann/json.hpp nlohmann-json3-dev)
