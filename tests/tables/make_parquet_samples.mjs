// Writes muster/testing/parquet_samples.h: one table as Parquet files of three programs that are not ours.
//   npm install hyparquet-writer@0.17 parquet-wasm apache-arrow @duckdb/node-api
//   node make_parquet_samples.mjs > ../../muster/testing/parquet_samples.h
import { DuckDBInstance } from '@duckdb/node-api'
import * as arrow from 'apache-arrow'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { parquetWriteBuffer } from 'hyparquet-writer'
import * as wasm from 'parquet-wasm/node'

const rows = 300
const numbers = [...Array(rows).keys()]
const column = (fn) => numbers.map(fn)
// What parquet_test.cpp expects in row i.
const flag = (i) => i % 3 === 0
const small = (i) => (i * 7) % 11 - 5
const wide = (i) => (i % 4 === 1 ? null : BigInt(i) * 10000000019n)
const ratio = (i) => i / 4
const exact = (i) => (i >= 100 && i < 170 ? null : (i % 50) / 8)
const word = (i) => (i % 5 === 2 ? null : `word ${i % 7}`)
const tags = (i) => (i % 6 === 5 ? null : [...Array(i % 4).keys()].map((k) => (k === 1 && i % 8 === 2 ? null : `t${(i + k) % 9}`)))

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'samples-'))
const samples = {}

samples.hyparquet = Buffer.from(parquetWriteBuffer({
  columnData: [
    { name: 'flag', data: column(flag), type: 'BOOLEAN', encoding: 'RLE', nullable: false },
    { name: 'small', data: column(small), type: 'INT32', encoding: 'DELTA_BINARY_PACKED', nullable: false },
    { name: 'wide', data: column(wide), type: 'INT64', encoding: 'DELTA_BINARY_PACKED' },
    { name: 'ratio', data: column(ratio), type: 'FLOAT', encoding: 'BYTE_STREAM_SPLIT', nullable: false },
    { name: 'exact', data: column(exact), type: 'DOUBLE', encoding: 'BYTE_STREAM_SPLIT' },
    { name: 'word', data: column(word), type: 'STRING', encoding: 'DELTA_BYTE_ARRAY' },
    { name: 'other_word', data: column(word), type: 'STRING', encoding: 'DELTA_LENGTH_BYTE_ARRAY' },
    { name: 'plain_word', data: column(word), type: 'STRING', encoding: 'PLAIN' },
    { name: 'half', data: column((i) => i % 16 / 4 - 1), type: 'FLOAT16', nullable: false },
  ],
  rowGroupSize: [100, 200],
  pageSize: 300,
  statistics: false,
}))

const table = new arrow.Table({
  flag: arrow.vectorFromArray(column(flag), new arrow.Bool()),
  small: arrow.vectorFromArray(column(small), new arrow.Int32()),
  wide: arrow.vectorFromArray(column(wide), new arrow.Int64()),
  ratio: arrow.vectorFromArray(column(ratio), new arrow.Float32()),
  exact: arrow.vectorFromArray(column(exact), new arrow.Float64()),
  word: arrow.vectorFromArray(column(word), new arrow.Utf8()),
  tags: arrow.vectorFromArray(column(tags), new arrow.List(new arrow.Field('item', new arrow.Utf8(), true))),
})
const from_wasm = (compression, version, dictionary) => {
  const properties = new wasm.WriterPropertiesBuilder()
    .setCompression(compression).setWriterVersion(version).setDictionaryEnabled(dictionary)
    .setMaxRowGroupSize(200).setDataPageSizeLimit(300).setWriteBatchSize(50).setStatisticsEnabled(wasm.EnabledStatistics.None).build()
  return Buffer.from(wasm.writeParquet(wasm.Table.fromIPCStream(arrow.tableToIPC(table, 'stream')), properties))
}
samples.wasm_v1_zstd = from_wasm(wasm.Compression.ZSTD, wasm.WriterVersion.V1, true)
samples.wasm_v2_gzip = from_wasm(wasm.Compression.GZIP, wasm.WriterVersion.V2, true)

const connection = await (await DuckDBInstance.create(':memory:')).connect()
await connection.run(`create table t as select
  i % 3 = 0 as flag, ((i * 7) % 11 - 5)::int as small,
  case when i % 4 = 1 then null else i * 10000000019 end::bigint as wide, (i / 4)::float as ratio,
  case when i >= 100 and i < 170 then null else (i % 50) / 8 end::double as exact,
  case when i % 5 = 2 then null else 'word ' || (i % 7) end as word,
  case when i % 6 = 5 then null else list_transform(range(i % 4),
    lambda k: case when k = 1 and i % 8 = 2 then null else 't' || ((i + k) % 9) end) end as tags,
  list_transform(range(i % 3), lambda k: list_transform(range(k + 1), lambda m: (i + m)::int)) as nested,
  {'city': 'c' || (i % 3), 'zip': (i % 100)::smallint} as address,
  map {'k' || (i % 2): i::int} as pairs,
  (i / 100)::decimal(9, 2) as price, (i / 100)::decimal(30, 3) as large_price,
  date '1970-01-01' + i::int as day, timestamp '2020-01-01 00:00:00' + interval 1 second * i as moment,
  (i + 4294960000 - 1000)::uinteger as unsigned_number
  from range(${10 * rows}) r(i)`)
const from_duckdb = async (count, options) => {
  const file = path.join(folder, 'x.parquet')
  await connection.run(`copy (select * from t limit ${count}) to '${file}' (format parquet, row_group_size 2048, ${options})`)
  return fs.readFileSync(file)
}
samples.duckdb_snappy = await from_duckdb(rows, 'compression snappy')
samples.duckdb_v2_zstd = await from_duckdb(10 * rows, 'compression zstd, parquet_version v2')

let text = `#pragma once

#include <string_view>

/// One table of ${rows} rows (kDuckdbV2Zstd: ten times as many) as Parquet files of three programs that are not ours, in base64.
/// tests/tables/make_parquet_samples.mjs has written them and says what is in each row.
namespace muster::testing::parquet_samples {
`
for (const [name, bytes] of Object.entries(samples)) {
  const lines = bytes.toString('base64').match(/.{1,100}/g).map((line) => `    "${line}"`)
  const words = name.split('_').map((part) => part[0].toUpperCase() + part.slice(1)).join('')
  text += `\n// clang-format off\ninline constexpr std::string_view k${words} =\n${lines.join('\n')};\n// clang-format on\n`
  fs.writeFileSync(path.join(process.env.SAMPLES ?? folder, name + '.parquet'), bytes)
}
process.stdout.write(text + '\n}  // namespace muster::testing::parquet_samples\n')
