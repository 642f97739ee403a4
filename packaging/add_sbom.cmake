# Run by cpack when the files of the packages lie in their folders: adds to each the list of what it is made of.
set(sbom /usr/bin/python3 "${CPACK_MUSTER_SOURCE_DIR}/packaging/sbom.py")
set(names "${CPACK_TOPLEVEL_DIRECTORY}/compiled_in.txt")
execute_process(COMMAND ${sbom} --compiled-in "${CPACK_MUSTER_BINARY_DIR}" OUTPUT_FILE "${names}" COMMAND_ERROR_IS_FATAL ANY)
function(add_sbom component package depends)
  # Modes are those of the checkout, and a umask's.
  execute_process(COMMAND chmod -R u=rwX,go=rX "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(
    COMMAND ${sbom} "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}" --name ${package} --depends "${depends}"
      --version "${CPACK_DEBIAN_PACKAGE_VERSION}" --output "usr/share/doc/${package}/sbom.spdx.json" --compiled-with "${names}"
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()
add_sbom(programs muster "${CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS}")
add_sbom(dev libmuster-dev "${CPACK_DEBIAN_DEV_PACKAGE_DEPENDS}")
