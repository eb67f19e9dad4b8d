import type { SeedFile } from '../plan-seed.js'
import { both16, both32, padded, sectorBytes, sectorsOf, wide } from './fields.js'
import { joliet, planRecord, rockRidge, type Extent, type Naming } from './plan-records.js'
import { planTree, type IsoDirectory } from './plan-tree.js'

/** Number of sectors at the beginning of the CD that are reserved for boot programs. */
const systemSectors = 16
const descriptorSectors = 3
/** Number of sectors for path tables: each of the two kinds of names has a table in each byte order. */
const pathTableSectors = 4
const firstDirectory = systemSectors + descriptorSectors + pathTableSectors

/** A tree of directories with one kind of names. A CD has two trees, which contain the same files. */
interface Volume {
  readonly naming: Naming
  readonly directories: readonly IsoDirectory[]
  /** First sector of the directories. Each directory has one sector. */
  readonly directoriesAt: number
  /** First sector of the tree's two path tables, which are adjacent. */
  readonly tablesAt: number
  readonly files: readonly Extent[]
}

/**
 * Builds a CD image that every system can read: ISO 9660 with the names of Rock Ridge and Joliet.
 * @param label up to 16 letters
 * @returns whole sectors of 2048 bytes
 * @throws {Error} for invalid names, or if a directory's entries exceed one sector
 * Source: ECMA-119, the second edition
 */
export function planIso(label: string, files: readonly SeedFile[]): Buffer {
  const directories = planTree(files.map(({ name }) => name))
  const contents = files.map(({ content }) => Buffer.from(content))
  const jolietAt = firstDirectory + directories.length
  const extents = planExtents(contents, jolietAt + directories.length)
  const common = { directories, files: extents }
  const order = directories.flatMap(({ entries }) => entries)
  const first = systemSectors + descriptorSectors
  const volumes: Volume[] = [
    { ...common, naming: rockRidge(order), directoriesAt: firstDirectory, tablesAt: first },
    { ...common, naming: joliet, directoriesAt: jolietAt, tablesAt: first + 2 },
  ]
  const end = extents.reduce((at, { bytes }) => at + sectorsOf(bytes), jolietAt + directories.length)
  return Buffer.concat([
    Buffer.alloc(systemSectors * sectorBytes),
    ...volumes.map((volume, at) => planDescriptor(volume, { label, sectors: end, isJoliet: at === 1 })),
    sector(Buffer.from('\xffCD001\x01', 'latin1')),
    ...volumes.flatMap((volume) => [planPathTable(volume, 'LE'), planPathTable(volume, 'BE')].map(sector)),
    ...volumes.flatMap((volume) => directories.map((_directory, at) => planDirectory(volume, at))),
    ...contents.map((content) => padded(content, sectorsOf(content.length) * sectorBytes)),
  ])
}

function planExtents(contents: readonly Buffer[], first: number): Extent[] {
  let next = first
  return contents.map(({ length }) => {
    const at = next
    next += sectorsOf(length)
    return { at, bytes: length }
  })
}

function sector(content: Buffer): Buffer {
  return padded(content, sectorBytes)
}

function directoryExtent({ directoriesAt }: Volume, index: number): Extent {
  return { at: directoriesAt + index, bytes: sectorBytes }
}

/** Plans the sector of a directory (ECMA-119, 6.8). */
function planDirectory(volume: Volume, index: number): Buffer {
  const { naming, directories, files } = volume
  const { parent, entries } = directories[index]!
  return sector(
    Buffer.concat([
      planRecord(naming, index === 0 ? 'root' : 'self', directoryExtent(volume, index)),
      planRecord(naming, 'parent', directoryExtent(volume, parent)),
      ...entries.map((entry) => {
        const extent = entry.kind === 'file' ? files[entry.index]! : directoryExtent(volume, entry.index)
        return planRecord(naming, entry, extent)
      }),
    ]),
  )
}

/** Plans a path table (ECMA-119, 9.4). */
function planPathTable(volume: Volume, order: 'LE' | 'BE'): Buffer {
  const { naming, directories } = volume
  return Buffer.concat(
    directories.map(({ parent }, index) => {
      const entry = directories[parent]!.entries.find((one) => one.kind === 'directory' && one.index === index)
      const id = entry ? naming.idOf(entry) : Buffer.alloc(1)
      const head = Buffer.alloc(8)
      head.writeUInt8(id.length, 0)
      head[`writeUInt32${order}`](directoryExtent(volume, index).at, 2)
      head[`writeUInt16${order}`](parent + 1, 6)
      return Buffer.concat([head, id, Buffer.alloc(id.length % 2)])
    }),
  )
}

interface DescriptorFacts {
  readonly label: string
  readonly sectors: number
  readonly isJoliet: boolean
}

/** Plans a volume descriptor (ECMA-119, 8.4 and 8.5). */
function planDescriptor(volume: Volume, { label, sectors, isJoliet }: DescriptorFacts): Buffer {
  const text = (content: string, bytes: number): Buffer =>
    isJoliet ? padded(wide(content), bytes, wide(' ')) : padded(Buffer.from(content), bytes, Buffer.from(' '))
  const tables = planPathTable(volume, 'LE').length
  const root = planRecord(joliet, 'self', directoryExtent(volume, 0))
  const noTime = Buffer.concat([Buffer.alloc(16, '0'), Buffer.alloc(1)])
  return sector(
    Buffer.concat([
      Buffer.from([isJoliet ? 2 : 1]),
      Buffer.from('CD001'),
      Buffer.from([1, 0]),
      text('', 32),
      text(label, 32),
      Buffer.alloc(8),
      both32(sectors),
      padded(Buffer.from(isJoliet ? '%/E' : ''), 32),
      both16(1),
      both16(1),
      both16(sectorBytes),
      both32(tables),
      planTablePlaces(volume),
      root,
      text('', 128),
      text('', 128),
      text('', 128),
      text('', 128), // the last four: volume set, publisher, preparer, application
      text('', 37),
      text('', 37),
      text('', 37),
      noTime,
      noTime,
      noTime,
      noTime,
      Buffer.from([1]),
    ]),
  )
}

/** Plans the fields with the sectors of the path tables. The CD has no optional copies of the tables. */
function planTablePlaces({ tablesAt }: Volume): Buffer {
  const places = Buffer.alloc(16)
  places.writeUInt32LE(tablesAt, 0)
  places.writeUInt32BE(tablesAt + 1, 8)
  return places
}
