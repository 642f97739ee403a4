#include <exception>
#include <span>

#include "muster/base/log.h"
#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/data/checkpoint/checkpoint_parts.h"
#include "muster/distribution/membership/part_writing_internal.h"

namespace muster::internal {

void begin_part(SnapshotWriter& writer, Membership& membership, const Path& model_dir,
                const PartRequest& request, const std::shared_ptr<EncodedTensors>& part) {
  const auto write = [&membership, model_dir, request, part](std::span<const TensorView> copies) {
    PartWritten told{.id = request.id};
    try {
      const PartPlace place = CheckpointParts::place_of(model_dir, request.id, request.name,
                                                        request.shard, request.num_shards);
      BundleWriter bundle(place.prefix, {.num_shards = place.num_shards, .shard = place.shard});
      for (const TensorView& tensor : copies) bundle.add(tensor);
      told.index = bundle.finish_part();
    } catch (const NotFound& error) {
      // The chief has removed the folder: it asks again in the next generation.
      told.failure = error.what();
      log::info("a part of {} is not wanted any more: {}", request.name, told.failure);
    } catch (...) {
      told.failure = describe(std::current_exception()).message;
      log::error("could not write a part of a checkpoint, training goes on name={} error=\"{}\"",
                 request.name, told.failure);
    }
    membership.tell_written(told);
  };
  try {
    writer.begin(fmt::format("a part of {}", request.name), part->views, write);
  } catch (const ResourceExhausted& error) {
    membership.tell_written({.id = request.id, .failure = error.what()});
  }
}

}  // namespace muster::internal
