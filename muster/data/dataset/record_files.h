#pragma once

#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/dataset/type_fwd.h"
#include "muster/data/records/csv.h"
#include "muster/data/records/fixed_length.h"
#include "muster/data/records/record.h"
#include "muster/data/records/record_source.h"
#include "muster/data/records/text_lines.h"
#include "muster/data/records/tfrecord_source.h"

namespace muster {

/// The records of these files, one file after the other, in any format. A file that cannot be read
/// on is a failure, and the next file follows. Files are opened when their turn comes. A path that
/// is a pattern of glob() stands for the files it matches, sorted; throws NotFound, naming it, if
/// there are none. The same holds for all functions here.
Dataset<Record> from_files(std::vector<Path> files, RecordSourceOpener open);

/// TFRecord files. With side indexes (`muster records index FILE`) they have random access, which
/// global_shuffle() needs, and which makes shard() and resuming quick.
Dataset<Record> tfrecords(std::vector<Path> files, TFRecordSourceOptions options = {});
/// Lines of text, without their ends.
Dataset<Record> text_lines(std::vector<Path> files, TextLineOptions options = {});
/// The text of CSV rows, for CsvDecoder.
Dataset<Record> csv_rows(std::vector<Path> files, CsvSourceOptions options = {});
/// Records of one length. Plain files have random access.
Dataset<Record> fixed_length(std::vector<Path> files, FixedLengthOptions options);

/// The files that match a pattern, sorted, as they are when it is called. Throws NotFound if there
/// are none.
Dataset<Path> list_files(const Path& pattern);

}  // namespace muster
