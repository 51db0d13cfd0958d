# ctest reads this file. It adds one test for each suite of a program instead of each test, because programs that link
# LibTorch take a third of a second to start. Long tests are added one by one, so that each has its own time limit, and
# ctest can divide them into shards. The includer sets `program`, `name`, `folder` (working directory), `seconds`,
# `labels` and `environment`.
execute_process(
  COMMAND "${program}" --gtest_list_tests --gtest_filter=-*.DISABLED_*
  WORKING_DIRECTORY "${folder}" OUTPUT_VARIABLE listed RESULT_VARIABLE failure)
if(failure)
  add_test("${name}.NOT_BUILT" "${program}")  # fails with the reason
  set_tests_properties("${name}.NOT_BUILT" PROPERTIES LABELS "${labels}")
  set(listed "")
endif()

function(add_tests_of_program test filter)
  add_test("${name}.${test}" "${program}" "--gtest_filter=${filter}:-*.DISABLED_*")
  set_tests_properties("${name}.${test}" PROPERTIES
    WORKING_DIRECTORY "${folder}" LABELS "${labels}" ENVIRONMENT "${environment}" TIMEOUT ${seconds})
endfunction()

# `listed` has a line `SUITE.` for each suite, and below it a line `  TEST  # GetParam() = ...` for each of its tests.
string(REGEX MATCHALL "\n( *)[^ \n]+" lines "\n${listed}")
foreach(line IN LISTS lines)
  string(STRIP "${line}" word)
  if(NOT line MATCHES "^\n ")
    string(REGEX REPLACE "\\.$" "" suite "${word}")
    if(NOT labels MATCHES "long")
      add_tests_of_program("${suite}" "${suite}.*")
    endif()
  elseif(labels MATCHES "long")
    add_tests_of_program("${suite}.${word}" "${suite}.${word}")
  endif()
endforeach()
