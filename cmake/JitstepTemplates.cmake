# Embeds the kernel templates and the tuning records into the library as text. Generates the optimizer classes from the
# templates.

file(GLOB_RECURSE JITSTEP_TEMPLATES CONFIGURE_DEPENDS
     RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}/templates" "${CMAKE_CURRENT_SOURCE_DIR}/templates/*.cuh")
list(SORT JITSTEP_TEMPLATES)
list(TRANSFORM JITSTEP_TEMPLATES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/templates/"
     OUTPUT_VARIABLE JITSTEP_TEMPLATE_FILES)

# Sets `result` to a generated source. It defines `function`, declared in `header`, which returns a table {name, text}
# of the given files in `folder`. The list of names is a separate file, so that removing a file also regenerates the
# table.
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
    COMMENT "Embedding files for ${function}()"
    VERBATIM)
  set(${result} "${source}" PARENT_SCOPE)
endfunction()

# Embeds the kernel templates.
function(jitstep_embed_templates result)
  _jitstep_embed_texts(source embedded_templates "jit/source/embedded_templates.h"
    "${CMAKE_CURRENT_SOURCE_DIR}/templates" ${JITSTEP_TEMPLATES})
  set(${result} "${source}" PARENT_SCOPE)
endfunction()

# Embeds the shipped tuning records.
function(jitstep_embed_records result)
  file(GLOB records CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}/tuning"
       "${CMAKE_CURRENT_SOURCE_DIR}/tuning/records/*.jsonl")
  _jitstep_embed_texts(source embedded_records "jit/tuning/embedded_records.h"
    "${CMAKE_CURRENT_SOURCE_DIR}/tuning" ${records})
  set(${result} "${source}" PARENT_SCOPE)
endfunction()

# Sets `result` to the generated optimizer classes (jitstep/rules.h and its source). They are copied only when they
# change, so that a new generator does not recompile all sources that include the header.
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
