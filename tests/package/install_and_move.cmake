# Installs the build tree BUILD to FIRST and moves it to THEN, so that nothing remains at FIRST.
file(REMOVE_RECURSE "${FIRST}" "${THEN}")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${FIRST}"
                COMMAND_ERROR_IS_FATAL ANY)
file(RENAME "${FIRST}" "${THEN}")
