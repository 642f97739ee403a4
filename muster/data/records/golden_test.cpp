// Bytes that files have had since they were first written: the same on every machine.
#include "muster/testing/golden.h"

#include "muster/base/file_system.h"
#include "muster/data/records/example_builder.h"
#include "muster/data/records/record_writer.h"
#include "muster/data/records/synthetic_census.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using testing::expect_golden;
using testing::TempDir;

TEST(Golden, RecordsOfExamplesAndTheirIndex) {
  const TempDir dir;
  const SyntheticCensus census = make_synthetic_census(300, 7);
  RecordWriter writer(dir / "census.tfrecord", {.write_index = true});
  std::string rows;
  for (std::size_t i = 0; i < census.rows.size(); ++i) {
    rows += census.rows[i] + "\n";
    ExampleBuilder example;
    example.add_bytes("row", census.rows[i]);
    example.add_int("label", census.labels[i]);
    example.add_float("half", 0.5F * static_cast<float>(i));
    writer.append(example.serialize());
  }
  writer.close();
  expect_golden(rows, "16e99cc37466782d597d4f0f1017100504691b65291a76172884f8d2545bc170", "rows");
  expect_golden(read_file(dir / "census.tfrecord"),
                "397e25509f3cca53996356e0544c81192805b18fc8b17f14ffbb35e78cc68713", "records");
}

}  // namespace
}  // namespace muster
