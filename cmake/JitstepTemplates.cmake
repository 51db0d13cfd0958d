# The kernel templates: embedded into the library as text, as the tuning records are, and read by the class generator.

file(GLOB_RECURSE JITSTEP_TEMPLATES CONFIGURE_DEPENDS
     RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}/templates" "${CMAKE_CURRENT_SOURCE_DIR}/templates/*.cuh")
list(SORT JITSTEP_TEMPLATES)
list(TRANSFORM JITSTEP_TEMPLATES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/templates/"
     OUTPUT_VARIABLE JITSTEP_TEMPLATE_FILES)

# Sets `result` to a generated source with a table {name, text} of files below `folder`: what FUNCTION returns, which
# HEADER declares. The list of names is a file of its own, so that a removed file regenerates the table as well.
function(_jitstep_embed_texts result function header folder)
  set(names_file "${CMAKE_CURRENT_BINARY_DIR}/${function}.txt")
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp")
  list(JOIN ARGN "\n" names)
  file(GENERATE OUTPUT "${names_file}" CONTENT "${names}\n")
  set(files ${ARGN})
  list(TRANSFORM files PREPEND "${folder}/")
  set(script "${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_texts.cmake")
  add_custom_command(
    OUTPUT "${source}"
    COMMAND "${CMAKE_COMMAND}" "-DFOLDER=${folder}" "-DFUNCTION=${function}" "-DHEADER=${header}"
            "-DNAMES_FILE=${names_file}" "-DOUTPUT=${source}" -P "${script}"
    DEPENDS "${script}" "${names_file}" ${files}
    COMMENT "Embedding what ${function}() returns"
    VERBATIM)
  set(${result} "${source}" PARENT_SCOPE)
endfunction()

# The kernel templates.
function(jitstep_embed_templates result)
  _jitstep_embed_texts(source embedded_templates "jit/source/embedded_templates.h"
    "${CMAKE_CURRENT_SOURCE_DIR}/templates" ${JITSTEP_TEMPLATES})
  set(${result} "${source}" PARENT_SCOPE)
endfunction()

# The shipped tuning records and their schema.
function(jitstep_embed_records result)
  file(GLOB records CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}/tuning"
       "${CMAKE_CURRENT_SOURCE_DIR}/tuning/records/*.jsonl")
  _jitstep_embed_texts(source embedded_records "jit/codegen/embedded_records.h"
    "${CMAKE_CURRENT_SOURCE_DIR}/tuning" record.schema.json ${records})
  set(${result} "${source}" PARENT_SCOPE)
endfunction()

# Sets `result` to the generated optimizer classes (jitstep/rules.h and its source). They are copied
# only when they changed: a new library does not recompile everything that includes the header.
function(jitstep_generate_classes result)
  jitstep_program(jitstep_generate_classes INTERNALS
                  SOURCES tools/generate_classes/main.cpp tools/generate_classes/rule.cpp
                  LIBRARIES nlohmann_json::nlohmann_json)
  set(fresh "${CMAKE_CURRENT_BINARY_DIR}/generated")
  set(header "${JITSTEP_GENERATED_DIR}/jitstep/rules.h")
  set(source "${CMAKE_CURRENT_BINARY_DIR}/rules.cpp")
  set(stamp "${fresh}/stamp")
  add_custom_command(
    OUTPUT "${stamp}"
    BYPRODUCTS "${header}" "${source}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${fresh}/jitstep"
    COMMAND jitstep_generate_classes "${fresh}"
    COMMAND "${CMAKE_COMMAND}" -E copy_if_different "${fresh}/jitstep/rules.h" "${header}"
    COMMAND "${CMAKE_COMMAND}" -E copy_if_different "${fresh}/jitstep/rules.cpp" "${source}"
    COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
    DEPENDS jitstep_generate_classes ${JITSTEP_TEMPLATE_FILES}
    COMMENT "Generating the optimizer classes"
    VERBATIM)
  add_custom_target(jitstep_rules DEPENDS "${stamp}")  # the API reference needs the header and no library
  set_source_files_properties("${stamp}" PROPERTIES HEADER_FILE_ONLY ON)
  set(${result} "${stamp}" "${header}" "${source}" PARENT_SCOPE)
endfunction()
