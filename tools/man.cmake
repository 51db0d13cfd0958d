# The target `man`: manual pages of the tool and its commands, which help2man writes from `--help`. Without help2man
# there is no such target.

find_program(JITSTEP_HELP2MAN help2man)
mark_as_advanced(JITSTEP_HELP2MAN)
if(NOT JITSTEP_HELP2MAN)
  return()
endif()

set(man_folder "${CMAKE_CURRENT_BINARY_DIR}/man")
set(man_pages "${man_folder}/jitstep.1")
foreach(command IN ITEMS list show inspect memory convert tune bench check compile doctor cache completion)
  list(APPEND man_pages "${man_folder}/jitstep-${command}.1")
endforeach()
add_custom_command(
  OUTPUT ${man_pages}
  COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/man.sh" "${JITSTEP_HELP2MAN}" $<TARGET_FILE:jitstep_tool> "${man_folder}"
  DEPENDS jitstep_tool "${CMAKE_CURRENT_SOURCE_DIR}/man.sh"
  COMMENT "Writing manual pages"
  VERBATIM)
set(man_all "")
if(JITSTEP_INSTALL)
  set(man_all ALL)
endif()
add_custom_target(man ${man_all} DEPENDS ${man_pages})
if(JITSTEP_INSTALL)
  install(FILES ${man_pages} DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" OPTIONAL)
endif()
