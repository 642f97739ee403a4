#include "muster/data/records/kept_record.h"

#include <memory>

#include "muster/base/shared_block.h"

namespace muster {

void copy_out_of_block(Record& record) {
  if (!is_shared_block(record.owner)) return;
  const std::shared_ptr<char[]> own = std::make_shared_for_overwrite<char[]>(record.bytes.size());
  record.bytes.copy(own.get(), record.bytes.size());
  record.bytes = {own.get(), record.bytes.size()};
  record.owner = own;
}

}  // namespace muster
