#pragma once

/// Records in files: reading, writing, indexing and parsing them.

#include "muster/records/cifar10.h"
#include "muster/records/compression.h"
#include "muster/records/csv.h"
#include "muster/records/example_builder.h"
#include "muster/records/example_parser.h"
#include "muster/records/fixed_length.h"
#include "muster/records/idx.h"
#include "muster/records/npy.h"
#include "muster/records/npz.h"
#include "muster/records/parse_spec.h"
#include "muster/records/record.h"
#include "muster/records/record_index.h"
#include "muster/records/record_reader.h"
#include "muster/records/record_source.h"
#include "muster/records/record_writer.h"
#include "muster/records/sharded_files.h"
#include "muster/records/synthetic_census.h"
#include "muster/records/text_lines.h"
#include "muster/records/tfrecord_source.h"
