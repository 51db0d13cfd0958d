# Adds jitstep as a subfolder and checks that it does not change the including project.

set(watched BUILD_SHARED_LIBS CMAKE_BUILD_TYPE CMAKE_CXX_FLAGS CMAKE_CXX_STANDARD CMAKE_CXX_EXTENSIONS
    CMAKE_CXX_COMPILER_LAUNCHER CMAKE_CXX_VISIBILITY_PRESET CMAKE_EXPORT_COMPILE_COMMANDS
    CMAKE_MODULE_PATH CMAKE_POSITION_INDEPENDENT_CODE)
foreach(name IN LISTS watched)
  set(before_${name} "${${name}}")
  get_property(cached_${name} CACHE ${name} PROPERTY TYPE)
endforeach()

add_subdirectory("${JITSTEP_SUBDIRECTORY}" jitstep)

foreach(name IN LISTS watched)
  get_property(cached CACHE ${name} PROPERTY TYPE)
  if(NOT "${${name}}" STREQUAL "${before_${name}}" OR NOT "${cached}" STREQUAL "${cached_${name}}")
    message(FATAL_ERROR "jitstep changed ${name} of the including project.")
  endif()
endforeach()
foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS LINK_OPTIONS INCLUDE_DIRECTORIES TESTS)
  get_property(value DIRECTORY PROPERTY ${property})
  if(value)
    message(FATAL_ERROR "jitstep gave the including project ${property}: ${value}")
  endif()
endforeach()
get_property(targets DIRECTORY "${JITSTEP_SUBDIRECTORY}" PROPERTY BUILDSYSTEM_TARGETS)
list(FILTER targets EXCLUDE REGEX "^jitstep(_|$)")
get_property(subdirectories DIRECTORY "${JITSTEP_SUBDIRECTORY}" PROPERTY SUBDIRECTORIES)
get_property(tests DIRECTORY "${JITSTEP_SUBDIRECTORY}" PROPERTY TESTS)
if(targets OR subdirectories OR tests)
  message(FATAL_ERROR "jitstep added more than its libraries: ${targets} ${subdirectories} ${tests}")
endif()
