# The target `site` writes the documentation as web pages, if MkDocs is installed (tools/setup.sh --docs).
# The target `docs` writes the API reference of the public headers, if doxygen is installed.

find_program(JITSTEP_MKDOCS mkdocs HINTS "${PROJECT_SOURCE_DIR}/.deps/docs/bin")
find_package(Python3 COMPONENTS Interpreter QUIET)
mark_as_advanced(JITSTEP_MKDOCS)
if(JITSTEP_MKDOCS AND Python3_Interpreter_FOUND)
  add_custom_target(site
    COMMAND Python3::Interpreter tools/site.py build/site-pages
    COMMAND "${JITSTEP_MKDOCS}" build --strict --quiet --site-dir "${PROJECT_BINARY_DIR}/site"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    COMMENT "Writing the documentation to ${PROJECT_BINARY_DIR}/site"
    VERBATIM)
endif()

find_program(JITSTEP_DOXYGEN doxygen)
find_program(JITSTEP_AWK awk)
mark_as_advanced(JITSTEP_DOXYGEN JITSTEP_AWK)
if(NOT JITSTEP_DOXYGEN OR NOT JITSTEP_AWK)
  return()
endif()

set(JITSTEP_DOCS_DIR "${CMAKE_CURRENT_BINARY_DIR}/docs")
file(MAKE_DIRECTORY "${JITSTEP_DOCS_DIR}")
set(pages README.md templates/README.md src/jit/cache/CACHE_FORMAT.md src/optim/state/STATE_FORMAT.md)
list(TRANSFORM pages PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/include/*.h")
list(TRANSFORM headers REPLACE ".*/include/jitstep/args.h" "${CMAKE_CURRENT_SOURCE_DIR}/templates/kernel/args.cuh")
if(JITSTEP_BUILD_TORCH)
  list(APPEND headers "${JITSTEP_GENERATED_DIR}/jitstep/rules.h")
endif()
set(input ${headers} ${pages})
list(TRANSFORM input REPLACE "(.+)" "\"\\1\"")
list(JOIN input " " JITSTEP_DOCS_INPUT)
configure_file(cmake/Doxyfile.in "${JITSTEP_DOCS_DIR}/Doxyfile" @ONLY)

set(run_doxygen "${CMAKE_COMMAND}" "-DDOXYGEN=${JITSTEP_DOXYGEN}" "-DDIR=${JITSTEP_DOCS_DIR}"
    -P "${CMAKE_CURRENT_SOURCE_DIR}/cmake/run_doxygen.cmake")
add_custom_target(docs
  COMMAND ${run_doxygen}
  COMMENT "Writing the API reference to ${JITSTEP_DOCS_DIR}/html"
  VERBATIM)
if(TARGET jitstep)
  add_dependencies(docs jitstep)  # which generates rules.h
endif()
if(JITSTEP_BUILD_TESTS)
  add_test(NAME docs.document_everything_public COMMAND ${run_doxygen})
  set_tests_properties(docs.document_everything_public PROPERTIES LABELS cpu TIMEOUT 300)
endif()
