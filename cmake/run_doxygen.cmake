# Runs DOXYGEN in DIR and fails on its warnings: everything public is documented. Only fields, whose
# name, type and default may say all there is, need no comment. Pages link to files of the repository,
# which are not in the reference.
file(REMOVE "${DIR}/warnings.txt")
execute_process(COMMAND "${DOXYGEN}" "${DIR}/Doxyfile" COMMAND_ERROR_IS_FATAL ANY)
file(STRINGS "${DIR}/warnings.txt" warnings)
list(FILTER warnings EXCLUDE REGEX "\\.md:[0-9]+: warning: ")
list(FILTER warnings EXCLUDE REGEX "\\((variable|enumvalue)\\) of .* is not documented")
if(warnings)
  list(JOIN warnings "\n" text)
  message(FATAL_ERROR "Comments of public headers:\n${text}")
endif()
