# muster_embed(SOURCE FOLDER FILES...): writes SOURCE, which holds the bytes of the files and defines web_files(). The
# assembler reads them, so that a build takes no longer for them.
include_guard()

function(muster_embed source folder)
  set(blobs "")
  set(rows "")
  set(paths "")
  set(number 0)
  foreach(file IN LISTS ARGN)
    string(APPEND blobs "asm(\".section .rodata\\n\"\n"
      "    \".global muster_web_${number}, muster_web_${number}_end\\n\"\n"
      "    \"muster_web_${number}:\\n\"\n"
      "    \".incbin \\\"${folder}/${file}\\\"\\n\"\n"
      "    \"muster_web_${number}_end:\\n\"\n"
      "    \".byte 0\\n\"\n"
      "    \".previous\\n\");\n"
      "extern \"C\" const char muster_web_${number}[], muster_web_${number}_end[];\n")
    string(APPEND rows
      "      {\"${file}\", std::string_view(muster_web_${number}, muster_web_${number}_end - muster_web_${number})},\n")
    list(APPEND paths "${folder}/${file}")
    math(EXPR number "${number} + 1")
  endforeach()
  set(target "${CMAKE_CURRENT_BINARY_DIR}/${source}")
  file(CONFIGURE OUTPUT "${target}" CONTENT "// Made by cmake/MusterEmbed.cmake.
#include \"muster/console/web_files.h\"

${blobs}
namespace muster::console {

std::span<const WebFile> web_files() {
  static const WebFile files[] = {
${rows}  };
  return files;
}

}  // namespace muster::console
" @ONLY)
  set_source_files_properties("${target}" PROPERTIES OBJECT_DEPENDS "${paths}" SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
