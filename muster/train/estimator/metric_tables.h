#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/data/summary/event_writer.h"
#include "muster/nn/model/metric.h"

namespace muster {

/// The table in Markdown, as TensorBoard shows texts.
std::string markdown_of(const MetricTable& table);

/// A grey picture of a table: white for 0, black for the whole sum of the row. Throws
/// InvalidArgument for a table without cells.
struct TablePicture {
  std::vector<std::uint8_t> samples{};
  ImageShape shape{};
};
TablePicture picture_of(const MetricTable& table);

/// Each as the text NAME/table, and a heat map as the picture NAME/picture too.
void write_tables(EventWriter& events, const std::map<std::string, MetricTable>& tables,
                  std::int64_t step);

}  // namespace muster
