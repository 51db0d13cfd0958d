# Functions that declare the targets of this project. They name no target except the ones to link: jitstep and
# jitstep_jit.

if(PROJECT_IS_TOP_LEVEL)
  get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(NOT multi_config AND NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()

set(JITSTEP_SANITIZE "" CACHE STRING
    "Sanitizers for all code, including the tests' kernels: address,undefined or thread")
if(JITSTEP_SANITIZE)
  string(APPEND CMAKE_CXX_FLAGS
    " -fsanitize=${JITSTEP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer")
  if(JITSTEP_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    string(APPEND CMAKE_CXX_FLAGS " -Wno-tsan")  # torch's headers have fences, which ThreadSanitizer does not see
  endif()
endif()

find_package(Threads REQUIRED)

# Public headers are in include/. Only rules.h is generated, in the folder include/ of the build folder. Sources include
# private headers by their path in src/, as in "jit/cache/disk_cache.h".
set(JITSTEP_GENERATED_DIR "${CMAKE_CURRENT_BINARY_DIR}/include")

# ccache makes rebuilds fast. It sees paths below CCACHE_BASEDIR as relative ones, so that a clone in another folder also
# finds its entries. With precompiled headers, it needs this sloppiness, and also -fpch-preprocess for GCC. For Clang, the
# precompiled header must not contain a time stamp.
function(jitstep_use_ccache target)
  if(NOT JITSTEP_CCACHE OR CMAKE_CXX_COMPILER_LAUNCHER)
    return()
  endif()
  find_program(JITSTEP_CCACHE_PROGRAM ccache)
  mark_as_advanced(JITSTEP_CCACHE_PROGRAM)
  if(NOT JITSTEP_CCACHE_PROGRAM)
    return()
  endif()
  set_property(TARGET ${target} PROPERTY CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}"
    "${JITSTEP_CCACHE_PROGRAM}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  else()
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

# Sets the options that all targets share. Programs also use -fPIC, because a precompiled header requires the same
# options in all sources that use it.
function(jitstep_compile target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow $<$<BOOL:${JITSTEP_WERROR}>:-Werror> -fPIC)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # These warnings have false positives in the standard library (GCC bugs 105562, 107852, 105651).
    target_compile_options(${target} PRIVATE
      -Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-restrict -Wno-array-bounds)
  endif()
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE OFF DEFINE_SYMBOL ""
    UNITY_BUILD OFF  # also in an including project, because two sources may have local helpers of the same name
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  jitstep_use_ccache(${target})
endfunction()

# Sets the usage requirements of `target`: its headers, C++20 and the PUBLIC libraries.
function(_jitstep_use target public private)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${JITSTEP_GENERATED_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PUBLIC ${public} PRIVATE ${private})
endfunction()

# jitstep_library(<target> EXPORT_NAME <name> SOURCES ... [NEEDS <library of ours>] [RUN_PATH <folder>]
#                 [PUBLIC ...] [PRIVATE ...])
#
# RUN_PATH: where the installed library finds libraries of other projects. CMake's automatic list omits folders in the
# source tree, where tools/setup.sh installs torch.
#
# Sources are compiled once, in <target>_objects, for two libraries. <target> exports only symbols marked JITSTEP_API.
# The static <target>_internals has all symbols, for the command-line tool, the tests of src/jit and the fuzzers.
# Without BUILD_SHARED_LIBS both are the same.
function(jitstep_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXPORT_NAME;NEEDS;RUN_PATH" "SOURCES;PUBLIC;PRIVATE")
  add_library(${target}_objects OBJECT ${arg_SOURCES})
  jitstep_compile(${target}_objects)
  target_include_directories(${target}_objects PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src")
  _jitstep_use(${target}_objects "${arg_NEEDS};${arg_PUBLIC}" "${arg_PRIVATE}")

  add_library(${target} $<TARGET_OBJECTS:${target}_objects>)
  add_library(jitstep::${arg_EXPORT_NAME} ALIAS ${target})
  _jitstep_use(${target} "${arg_NEEDS};${arg_PUBLIC}" "${arg_PRIVATE}")
  set(run_path "\$ORIGIN" ${arg_RUN_PATH})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${arg_EXPORT_NAME}
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH "${run_path}")
  if(NOT BUILD_SHARED_LIBS)
    add_library(${target}_internals ALIAS ${target})
    return()
  endif()
  set(exports "${CMAKE_CURRENT_SOURCE_DIR}/cmake/exports.map")
  target_link_options(${target} PRIVATE "LINKER:--version-script=${exports}")
  if(NOT JITSTEP_SANITIZE)  # the sanitizer's functions are linked only into programs
    target_link_options(${target} PRIVATE "LINKER:-z,defs")
  endif()
  set_target_properties(${target} PROPERTIES LINK_DEPENDS "${exports}")
  add_library(${target}_internals STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${target}_objects>)
  list(TRANSFORM arg_NEEDS APPEND "_internals")
  _jitstep_use(${target}_internals "${arg_NEEDS};${arg_PUBLIC}" "${arg_PRIVATE}")
endfunction()

# Adds a program. With TORCH, it links the front end and reuses its precompiled headers. With INTERNALS, it links the
# libraries with all symbols. ENABLE_EXPORTS lets code that is loaded at run time find the program's symbols.
function(jitstep_program target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH;INTERNALS" "" "SOURCES;LIBRARIES")
  add_executable(${target} ${arg_SOURCES})
  jitstep_compile(${target})
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
  set(library jitstep_jit)
  if(arg_TORCH)
    set(library jitstep)
    target_precompile_headers(${target} REUSE_FROM jitstep_objects)
  endif()
  if(arg_INTERNALS)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
    string(APPEND library "_internals")
  endif()
  target_link_libraries(${target} PRIVATE ${library} ${arg_LIBRARIES})
endfunction()

# The versions of LibTorch that the tests pass with. With other versions the build may fail, or results may differ.
set(JITSTEP_TESTED_LIBTORCH 2.13)

# The front end needs c10::Stream::native_handle(), which older versions do not have.
function(jitstep_check_libtorch)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" minor "${LibTorch_VERSION}")
  list(JOIN JITSTEP_TESTED_LIBTORCH ", " tested)
  set(header "${LibTorch_ROOT}/include/c10/core/Stream.h")
  file(STRINGS "${header}" found REGEX "native_handle")
  if(NOT found)
    message(FATAL_ERROR "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT} is too old: its c10::Stream "
      "has no native_handle(). Use a newer LibTorch (tested: ${tested}). tools/setup.sh installs it.")
  elseif(NOT minor IN_LIST JITSTEP_TESTED_LIBTORCH)
    message(WARNING "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT} is not tested. Tested versions: ${tested}. "
      "tools/setup.sh installs one.")
  endif()
endfunction()
