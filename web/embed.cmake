# Writes OUT, a C++ source with the files of the page. Usage: cmake -D SOURCE=web -D OUT=assets.cpp -P embed.cmake
cmake_minimum_required(VERSION 3.25)
set(arrays "")
set(rows "")
set(number 0)
foreach(row "|index.html|text/html" "app.js|app.js|text/javascript" "charts.js|charts.js|text/javascript" "style.css|style.css|text/css" "icon.svg|icon.svg|image/svg+xml")
  string(REPLACE "|" ";" parts "${row}")
  list(GET parts 0 name)
  list(GET parts 1 file)
  list(GET parts 2 type)
  file(READ ${SOURCE}/${file} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char kFile${number}[] = {\n${bytes}};\n")
  string(APPEND rows "    {\"${name}\", \"${type}; charset=utf-8\", text_of(kFile${number})},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "// Made by web/embed.cmake.
#include \"web/assets.h\"

#include <array>
#include <cstddef>

namespace salus::web {
namespace {

${arrays}
template <std::size_t N>
std::string_view text_of(const unsigned char (&bytes)[N]) {
    return {reinterpret_cast<const char*>(bytes), N};
}

const std::array<Asset, ${number}> kAssets = {{
${rows}}};

}  // namespace

const Asset* find_asset(std::string_view name) {
    for (const Asset& asset : kAssets) {
        if (asset.name == name) return &asset;
    }
    return nullptr;
}

}  // namespace salus::web
")
