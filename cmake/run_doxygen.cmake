# Runs DOXYGEN in DIR and fails on its warnings, so that every public declaration is documented. Fields need no comment,
# because name, type and default may be sufficient. Warnings about links in Markdown pages are ignored: the pages link
# to files of the repository that are not in the reference.
file(REMOVE "${DIR}/warnings.txt")
execute_process(COMMAND "${DOXYGEN}" "${DIR}/Doxyfile" COMMAND_ERROR_IS_FATAL ANY)
file(STRINGS "${DIR}/warnings.txt" warnings)
list(FILTER warnings EXCLUDE REGEX "\\.md:[0-9]+: warning: ")
list(FILTER warnings EXCLUDE REGEX "\\((variable|enumvalue)\\) of .* is not documented")
if(warnings)
  list(JOIN warnings "\n" text)
  message(FATAL_ERROR "Errors in comments of public headers:\n${text}")
endif()
