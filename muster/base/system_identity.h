#pragma once

#include <string>

namespace muster {

/// The kernel's identifier of this boot of the system; empty where it does not tell.
std::string boot_id();

/// The namespace of this kind that the process is in, such as "pid:[4026531836]" for "pid"; empty
/// where the kernel does not tell. Numbers that belong to such a namespace mean the same to two
/// processes with the same boot_id() and the same namespace.
std::string own_namespace(const std::string& kind);

}  // namespace muster
