# Adds the variables for JITSTEP_SANITIZE to `test_environment`: the sanitizers' options, and a compiler that also
# instruments the kernels. (With Clang the kernels are not instrumented. Clang links its run time into the program, where
# `-Wl,--no-undefined` does not find it.)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(kernel_compiler "${CMAKE_CURRENT_BINARY_DIR}/sanitizing_compiler")
  file(WRITE "${kernel_compiler}" "#!/bin/sh
exec \"${CMAKE_CXX_COMPILER}\" -fsanitize=${JITSTEP_SANITIZE} -fno-sanitize-recover=all \"$@\"
")
  file(CHMOD "${kernel_compiler}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  list(APPEND test_environment "JITSTEP_CXX=${kernel_compiler}")
endif()

if(JITSTEP_SANITIZE MATCHES "thread")
  # ThreadSanitizer does not see the barriers of an uninstrumented libgomp, so torch's pool has one thread. The tests
  # start their own threads.
  list(APPEND test_environment "OMP_NUM_THREADS=1"
    "TSAN_OPTIONS=second_deadlock_stack=1:history_size=7")
else()
  list(APPEND test_environment
    "ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1"
    "LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_SOURCE_DIR}/support/lsan.supp:print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1")
endif()
