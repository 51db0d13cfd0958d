# Install rules: headers, libraries, templates (for reading only) and the package for find_package.

include(CMakePackageConfigHelpers)

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/jitstep")

install(DIRECTORY include/jitstep/jit DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/jitstep")
install(FILES include/jitstep/version.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/jitstep")
install(FILES templates/kernel/hyper_params.cuh DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/jitstep"
        RENAME hyper_params.h)
install(DIRECTORY templates DESTINATION "${CMAKE_INSTALL_DATADIR}/jitstep")
# Not CMAKE_INSTALL_DOCDIR, which is named after the including project.
install(FILES LICENSE NOTICE DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/jitstep")
install(TARGETS jitstep_jit EXPORT jitstepJitTargets)
install(EXPORT jitstepJitTargets NAMESPACE jitstep:: DESTINATION "${config_dir}")

if(JITSTEP_BUILD_TORCH)
  install(DIRECTORY include/jitstep DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
          PATTERN hyper_params.h EXCLUDE PATTERN jit EXCLUDE)
  install(FILES "${JITSTEP_GENERATED_DIR}/jitstep/rules.h"
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/jitstep")
  install(TARGETS jitstep EXPORT jitstepTargets)
  install(EXPORT jitstepTargets NAMESPACE jitstep:: DESTINATION "${config_dir}")
  install(FILES cmake/FindLibTorch.cmake DESTINATION "${config_dir}")
endif()

configure_package_config_file(cmake/jitstepConfig.cmake.in
  "${CMAKE_CURRENT_BINARY_DIR}/jitstepConfig.cmake" INSTALL_DESTINATION "${config_dir}")
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/jitstepConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/jitstepConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/jitstepConfigVersion.cmake"
        DESTINATION "${config_dir}")
