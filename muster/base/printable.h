#pragma once

#include <string>
#include <string_view>

namespace muster {

/// The text as a terminal and a log may have it: what is no character (bytes that are not UTF-8,
/// NUL) or would act on the terminal (escape sequences, carriage returns, marks that turn the
/// direction of writing) becomes \xNN. Line feeds and tabs stay. For messages, whatever part of
/// them came out of a file; a text that has been through it comes out the same.
std::string printable(std::string_view text);

/// The same on one line: line feeds and tabs are spelled out too. For names in lists.
std::string printable_line(std::string_view text);

}  // namespace muster
