# What `cmake --install` does beyond copying files: it writes what depends on the prefix (which --prefix may change after
# configuring), asks the programs for their manual pages and completions, and keeps the administrator's configuration.
# CMakeLists.txt sets SALUS_SOURCE and SALUS_BUILD.

set(prefix ${CMAKE_INSTALL_PREFIX})
set(root $ENV{DESTDIR}${prefix})
set(BIN ${prefix}/bin)
set(ETC ${prefix}/etc)
if(prefix STREQUAL "/usr") # as the file system standard has it
  set(ETC /etc)
endif()

set(stage ${SALUS_BUILD}/packaging)
file(REMOVE_RECURSE ${stage})
configure_file(${SALUS_SOURCE}/packaging/salusd.service.in ${stage}/system/salusd.service @ONLY)
configure_file(${SALUS_SOURCE}/packaging/salusd-user.service.in ${stage}/user/salusd.service @ONLY)
configure_file(${SALUS_SOURCE}/packaging/tmpfiles.conf ${stage}/tmpfiles.d/salus.conf COPYONLY)
configure_file(${SALUS_SOURCE}/packaging/sysusers.conf ${stage}/sysusers.d/salus.conf COPYONLY)

function(write_output_of file)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE ${file} "${output}")
endfunction()
write_output_of(${stage}/salus ${SALUS_BUILD}/bin/salus completion bash)
write_output_of(${stage}/_salus ${SALUS_BUILD}/bin/salus completion zsh)
write_output_of(${stage}/salus.fish ${SALUS_BUILD}/bin/salus completion fish)
execute_process(COMMAND python3 ${SALUS_SOURCE}/packaging/manpages ${SALUS_BUILD}/bin ${stage}/man ${ETC}
                COMMAND_ERROR_IS_FATAL ANY)

file(INSTALL DESTINATION ${prefix}/lib/systemd/system TYPE FILE FILES ${stage}/system/salusd.service)
file(INSTALL DESTINATION ${prefix}/lib/systemd/user TYPE FILE FILES ${stage}/user/salusd.service)
file(INSTALL DESTINATION ${prefix}/lib/tmpfiles.d TYPE FILE FILES ${stage}/tmpfiles.d/salus.conf)
file(INSTALL DESTINATION ${prefix}/lib/sysusers.d TYPE FILE FILES ${stage}/sysusers.d/salus.conf)
file(INSTALL DESTINATION ${prefix}/share/bash-completion/completions TYPE FILE FILES ${stage}/salus)
file(INSTALL DESTINATION ${prefix}/share/zsh/site-functions TYPE FILE FILES ${stage}/_salus)
file(INSTALL DESTINATION ${prefix}/share/fish/vendor_completions.d TYPE FILE FILES ${stage}/salus.fish)
file(INSTALL DESTINATION ${prefix}/share TYPE DIRECTORY FILES ${stage}/man)

# A configuration that somebody has changed stays; the new one lies beside it.
set(configuration salusd.toml)
if(EXISTS $ENV{DESTDIR}${ETC}/salus/salusd.toml)
  file(SHA256 $ENV{DESTDIR}${ETC}/salus/salusd.toml installed)
  file(SHA256 ${SALUS_SOURCE}/packaging/salusd.toml ours)
  if(NOT installed STREQUAL ours)
    message(STATUS "${ETC}/salus/salusd.toml was changed: the new one is salusd.toml.new")
    set(configuration salusd.toml.new)
  endif()
endif()
file(INSTALL DESTINATION ${ETC}/salus TYPE FILE RENAME ${configuration} FILES ${SALUS_SOURCE}/packaging/salusd.toml)

# The list of all files, for packaging/uninstall; and what an earlier version had and this one has not goes away. Names are
# relative to the prefix, so that a tarball can be unpacked anywhere.
function(below_prefix out)
  set(names)
  foreach(file ${ARGN})
    string(FIND "${file}" "${prefix}/" at)
    if(at EQUAL 0)
      string(LENGTH "${prefix}/" length)
      string(SUBSTRING "${file}" ${length} -1 file)
    endif()
    list(APPEND names ${file})
  endforeach()
  set(${out} ${names} PARENT_SCOPE)
endfunction()

set(manifest lib/salus/manifest)
below_prefix(files ${CMAKE_INSTALL_MANIFEST_FILES} ${manifest} ${ETC}/salus/salusd.toml)
list(REMOVE_DUPLICATES files)
if(EXISTS ${root}/${manifest})
  file(STRINGS ${root}/${manifest} lines)
  below_prefix(before ${lines})
  list(REMOVE_ITEM before ${files})
  foreach(file ${before})
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${prefix})
    file(REMOVE $ENV{DESTDIR}${file})
  endforeach()
endif()
list(JOIN files "\n" lines)
file(WRITE ${root}/${manifest} "${lines}\n")
