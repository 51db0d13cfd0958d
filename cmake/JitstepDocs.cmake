# `docs`: the API reference of the public headers, if doxygen is installed.
# `site`: the whole documentation as web pages, if MkDocs is installed. tools/setup.sh --docs installs both.

find_program(JITSTEP_MKDOCS mkdocs HINTS "${PROJECT_SOURCE_DIR}/.deps/docs/bin")
find_program(JITSTEP_DOXYGEN doxygen)
find_program(JITSTEP_AWK awk)
find_file(JITSTEP_DOXYGEN_STYLE doxygen-awesome.css PATHS /usr/share/doxygen-awesome-css NO_DEFAULT_PATH)
find_package(Python3 COMPONENTS Interpreter QUIET)
mark_as_advanced(JITSTEP_MKDOCS JITSTEP_DOXYGEN JITSTEP_AWK JITSTEP_DOXYGEN_STYLE)

# ---- the API reference -------------------------------------------------------------------------
set(site_pages "${PROJECT_BINARY_DIR}/site-pages")
set(site_flags "")
set(write_site_api "${CMAKE_COMMAND}" -E true)
if(JITSTEP_DOXYGEN AND JITSTEP_AWK)
  set(JITSTEP_DOCS_DIR "${CMAKE_CURRENT_BINARY_DIR}/docs")
  file(MAKE_DIRECTORY "${JITSTEP_DOCS_DIR}")
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/include/*.h")
  list(TRANSFORM headers REPLACE ".*/include/jitstep/hyper_params.h"
       "${CMAKE_CURRENT_SOURCE_DIR}/templates/kernel/hyper_params.cuh")
  if(JITSTEP_BUILD_TORCH)
    list(APPEND headers "${JITSTEP_GENERATED_DIR}/jitstep/rules.h")
  endif()
  set(input ${headers} "${CMAKE_CURRENT_SOURCE_DIR}/cmake/api_mainpage.md")
  list(TRANSFORM input REPLACE "(.+)" "\"\\1\"")
  list(JOIN input " " JITSTEP_DOCS_INPUT)
  set(JITSTEP_DOCS_STYLE "")
  if(JITSTEP_DOXYGEN_STYLE)
    set(JITSTEP_DOCS_STYLE "\"${JITSTEP_DOXYGEN_STYLE}\" \"${CMAKE_CURRENT_SOURCE_DIR}/cmake/api_style.css\"")
  endif()
  configure_file(cmake/Doxyfile.in "${JITSTEP_DOCS_DIR}/Doxyfile" @ONLY)
  # In the site the reference lies in api/, and its menu leads back to the other pages.
  file(WRITE "${JITSTEP_DOCS_DIR}/Doxyfile.site" "@INCLUDE = \"${JITSTEP_DOCS_DIR}/Doxyfile\"
OUTPUT_DIRECTORY = \"${site_pages}\"
HTML_OUTPUT = api
LAYOUT_FILE = \"${CMAKE_CURRENT_SOURCE_DIR}/cmake/api_layout.xml\"
WARN_LOGFILE = \"${JITSTEP_DOCS_DIR}/site_warnings.txt\"
")

  set(run_doxygen "${CMAKE_COMMAND}" "-DDOXYGEN=${JITSTEP_DOXYGEN}" "-DDIR=${JITSTEP_DOCS_DIR}"
      -P "${CMAKE_CURRENT_SOURCE_DIR}/cmake/run_doxygen.cmake")
  add_custom_target(docs
    COMMAND ${run_doxygen}
    COMMENT "Writing the API reference to ${JITSTEP_DOCS_DIR}/html"
    VERBATIM)
  if(TARGET jitstep_rules)
    add_dependencies(docs jitstep_rules)
  endif()
  if(JITSTEP_BUILD_TESTS)
    add_test(NAME docs.document_everything_public COMMAND ${run_doxygen})
    set_tests_properties(docs.document_everything_public PROPERTIES LABELS cpu TIMEOUT 300)
  endif()
  set(site_flags --api)
  set(write_site_api "${JITSTEP_DOXYGEN}" "${JITSTEP_DOCS_DIR}/Doxyfile.site")
endif()

# ---- the site ----------------------------------------------------------------------------------
if(JITSTEP_MKDOCS AND Python3_Interpreter_FOUND)
  add_custom_target(site
    COMMAND Python3::Interpreter tools/site.py ${site_flags} "${site_pages}"
    COMMAND ${write_site_api}
    COMMAND "${CMAKE_COMMAND}" -E env "JITSTEP_SITE_PAGES=${site_pages}" "${JITSTEP_MKDOCS}" build --strict --quiet --site-dir "${PROJECT_BINARY_DIR}/site"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    COMMENT "Writing the documentation to ${PROJECT_BINARY_DIR}/site"
    VERBATIM)
  if(TARGET jitstep_rules)
    add_dependencies(site jitstep_rules)
  endif()
endif()
