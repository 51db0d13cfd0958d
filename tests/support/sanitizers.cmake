# Adds variables to `test_environment` that the tests need under JITSTEP_SANITIZE: the sanitizers' options, and a compiler
# that also instruments the kernels. Clang links its run time into the program, where `-Wl,--no-undefined` does not find
# it. Kernels are therefore not instrumented with Clang. -Og takes half of the time of -O3, which instrumentation makes
# long, and gives the same bits.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(kernel_compiler "${CMAKE_CURRENT_BINARY_DIR}/sanitizing_compiler")
  file(WRITE "${kernel_compiler}" "#!/bin/sh
exec \"${CMAKE_CXX_COMPILER}\" -fsanitize=${JITSTEP_SANITIZE} -fno-sanitize-recover=all \"$@\" -Og
")
  file(CHMOD "${kernel_compiler}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  list(APPEND test_environment "JITSTEP_CXX=${kernel_compiler}")
endif()

if(JITSTEP_SANITIZE MATCHES "thread")
  # ThreadSanitizer cannot see the barriers of an uninstrumented libgomp. So torch's pool has one thread, and the tests
  # start their own threads. It takes the child that starts a compiler for a fork of this process.
  list(APPEND test_environment "OMP_NUM_THREADS=1"
    "TSAN_OPTIONS=die_after_fork=0:second_deadlock_stack=1:history_size=7:suppressions=${CMAKE_CURRENT_SOURCE_DIR}/support/tsan.supp")
else()
  # LeakSanitizer of g++ 12 crashes in the list of thread-local storage that the dynamic linker has resized, as it does for
  # many kernels. It does not search that storage.
  list(APPEND test_environment
    "ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1"
    "LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_SOURCE_DIR}/support/lsan.supp:print_suppressions=0:use_tls=0"
    "UBSAN_OPTIONS=print_stacktrace=1:suppressions=${CMAKE_CURRENT_SOURCE_DIR}/support/ubsan.supp")
endif()
