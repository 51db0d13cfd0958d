# Runs the install rules of BUILD/tools as if the tool was not built. The script replaces TOOL by a missing file.
# Everything else must still be installed.
file(READ "${BUILD}/tools/cmake_install.cmake" rules)
string(REPLACE "${TOOL}" "${TOOL}_not_built" rules "${rules}")
file(WRITE "${PREFIX}/rules.cmake" "${rules}")
execute_process(COMMAND "${CMAKE_COMMAND}" "-DCMAKE_INSTALL_PREFIX=${PREFIX}" -P "${PREFIX}/rules.cmake"
                COMMAND_ERROR_IS_FATAL ANY)
