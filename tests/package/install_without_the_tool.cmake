# Runs the install rules of BUILD/tools as if the tool was not built. The script replaces TOOL by a missing file.
# Everything else must still be installed.
file(READ "${BUILD}/tools/cmake_install.cmake" rules)
string(FIND "${rules}" "${TOOL}" place)
if(place LESS 0)
  message(FATAL_ERROR "The install rules do not name ${TOOL}.")
endif()
string(REPLACE "${TOOL}" "${TOOL}_not_built" rules "${rules}")
file(WRITE "${PREFIX}/rules.cmake" "${rules}")
execute_process(COMMAND "${CMAKE_COMMAND}" "-DCMAKE_INSTALL_PREFIX=${PREFIX}" -P "${PREFIX}/rules.cmake"
                COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE installed LIST_DIRECTORIES false "${PREFIX}/share/*")
if(NOT installed)
  message(FATAL_ERROR "Nothing but the tool was installed to ${PREFIX}/share.")
endif()
