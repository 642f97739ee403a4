#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/file_system.h"
#include "muster/saved_model/graph/saved_model.h"

namespace muster::graph {

/// Identity of a SavedModel: the hashes of TensorFlow's FingerprintDef, of the first graph. They
/// say which model a folder holds, and are no protection against changes made on purpose.
struct ModelFingerprint {
  /// Checksum of all of saved_model.pb.
  std::uint64_t saved_model_checksum = 0;
  /// Hash of the nodes of the graph, less what differs between two exports of one model: numbers at
  /// the end of functions' names, configurations of calls, constant texts, versions.
  std::uint64_t graph_def_program_hash = 0;
  std::uint64_t signature_def_hash = 0;
  /// Hash of TensorFlow 2's functions; 0 without them.
  std::uint64_t saved_object_graph_hash = 0;
  /// Hash of variables/variables.index, which has the checksum of every variable; 0 without it.
  std::uint64_t checkpoint_hash = 0;
  bool operator==(const ModelFingerprint&) const = default;
};

/// `encoded` is encode_saved_model(model); the variables are in `dir`.
ModelFingerprint fingerprint_of(const SavedModel& model, std::string_view encoded, const Path& dir);

/// The bytes of fingerprint.pb, the same for equal fingerprints: without the random UUID that
/// TensorFlow adds.
std::string encode_fingerprint(const ModelFingerprint& fingerprint);

}  // namespace muster::graph
