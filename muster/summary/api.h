#pragma once

/// Event files: writing and reading what TensorBoard shows.

#include "muster/summary/event.h"
#include "muster/summary/event_reader.h"
#include "muster/summary/event_writer.h"
#include "muster/summary/histogram.h"
#include "muster/summary/hparams.h"
#include "muster/summary/png.h"
