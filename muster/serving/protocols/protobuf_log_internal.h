#pragma once

namespace muster::serving {

/// Protobuf writes a line to standard error for some messages that it cannot read, such as one
/// whose strings are not UTF-8: clients could fill a disk with them. This sends
/// such lines to our log at the level debug; the request is answered with what was wrong in any
/// case. For the whole process, once; libraries that log by Abseil (protobuf 22 and later) write
/// nothing for requests, and are left alone.
void quiet_protobuf();

}  // namespace muster::serving
