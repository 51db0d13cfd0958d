# ctest reads this file. It adds one test for each suite of a program instead of each test, because programs that link
# LibTorch take a third of a second to start. The includer sets `program`, `name`, `folder` (working directory),
# `seconds`, `labels` and `environment`.
execute_process(
  COMMAND "${program}" --gtest_list_tests --gtest_filter=-*.DISABLED_*
  WORKING_DIRECTORY "${folder}" OUTPUT_VARIABLE listed RESULT_VARIABLE failure)
if(failure)
  add_test("${name}.NOT_BUILT" "${program}")  # fails with the reason
  set_tests_properties("${name}.NOT_BUILT" PROPERTIES LABELS "${labels}")
  set(listed "")
endif()
string(REGEX MATCHALL "\n[^ \n]+\\." suites "\n${listed}")
foreach(suite IN LISTS suites)
  string(STRIP "${suite}" suite)
  string(REGEX REPLACE "\\.$" "" suite "${suite}")
  add_test("${name}.${suite}" "${program}" "--gtest_filter=${suite}.*:-*.DISABLED_*")
  set_tests_properties("${name}.${suite}" PROPERTIES
    WORKING_DIRECTORY "${folder}" LABELS "${labels}" ENVIRONMENT "${environment}" TIMEOUT ${seconds})
endforeach()
