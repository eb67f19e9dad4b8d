import { both16, both32, wide } from './fields.js'
import type { IsoEntry } from './plan-tree.js'

/** Place of a file or directory on the CD in sectors, and its size in bytes. */
export interface Extent {
  readonly at: number
  readonly bytes: number
}

/** Subject of a directory record: an entry, the directory itself, its parent, or the root directory. */
export type RecordSubject = IsoEntry | 'root' | 'self' | 'parent'

/** A way of writing names on a CD. */
export interface Naming {
  readonly idOf: (entry: IsoEntry) => Buffer
  /** Additional fields for readers that support extensions. */
  readonly extraOf: (subject: RecordSubject) => Buffer
}

/** Recording time of every file: 2000-01-01 (ECMA-119, 9.1.5). */
const recorded = Buffer.from([100, 1, 1, 0, 0, 0, 0])
const directoryFlag = 2

/** Plans a record in a directory (ECMA-119, 9.1). */
export function planRecord(naming: Naming, subject: RecordSubject, { at, bytes }: Extent): Buffer {
  const isFile = typeof subject === 'object' && subject.kind === 'file'
  const id = idOf(naming, subject)
  const body = Buffer.concat([
    both32(at),
    both32(bytes),
    recorded,
    Buffer.from([isFile ? 0 : directoryFlag, 0, 0]),
    both16(1),
    Buffer.from([id.length]),
    id,
    Buffer.alloc((id.length + 1) % 2),
    naming.extraOf(subject),
  ])
  const length = body.length + 2
  return Buffer.concat([Buffer.from([length + (length % 2), 0]), body, Buffer.alloc(length % 2)])
}

function idOf(naming: Naming, subject: RecordSubject): Buffer {
  if (typeof subject === 'object') return naming.idOf(subject)
  return Buffer.from([subject === 'parent' ? 1 : 0])
}

/** Names for Windows (Joliet Specification of 1995). */
export const joliet: Naming = {
  idOf: ({ name }) => wide(name),
  extraOf: () => Buffer.alloc(0),
}

/**
 * Names for Linux. Each entry has a short ISO 9660 name and, as an extension, its original name. Sorting by short names
 * and sorting by original names give the same order. Source: IEEE P1281 (SUSP) and P1282 (Rock Ridge)
 */
export function rockRidge(order: readonly IsoEntry[]): Naming {
  return {
    idOf: (entry) => Buffer.from(shortName(entry, order.indexOf(entry))),
    extraOf: (subject) =>
      Buffer.concat([
        ...(subject === 'root' ? [susp('SP', Buffer.from([0xbe, 0xef, 0]))] : []),
        planModes(subject),
        ...(subject === 'root' ? [extension] : []),
        ...(typeof subject === 'object' ? [susp('NM', Buffer.from(`\0${subject.name}`))] : []),
      ]),
  }
}

function shortName({ kind }: IsoEntry, place: number): string {
  const name = `E${`${place}`.padStart(7, '0')}`
  return kind === 'file' ? `${name}.;1` : name
}

/** Only root can read the files, because they contain a password hash. */
function planModes(subject: RecordSubject): Buffer {
  const isFile = typeof subject === 'object' && subject.kind === 'file'
  const [mode, links] = isFile ? [0o100600, 1] : [0o040700, 2]
  return susp('PX', Buffer.concat([mode, links, 0, 0].map(both32)))
}

const extension = susp('ER', Buffer.from([10, 0, 0, 1, ...Buffer.from('RRIP_1991A')]))

function susp(signature: string, content: Buffer): Buffer {
  return Buffer.concat([Buffer.from(signature), Buffer.from([content.length + 4, 1]), content])
}
