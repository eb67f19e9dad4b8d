import { cpus } from 'node:os'
import { existsSync } from 'node:fs'
import { isVirtual } from './interfaces.js'
import { listDirectory, parseNetDev, readKernelFile } from '../process/proc.js'

/** Resources that the host has used since its boot. A figure that could not be read is undefined. */
export interface HostCounters {
  /** Processor time of all processors together, in microseconds. */
  readonly cpuUsec: number | undefined
  /** Bytes that the interfaces with hardware have received. */
  readonly rxBytes: number | undefined
  readonly txBytes: number | undefined
  readonly readBytes: number | undefined
  readonly writeBytes: number | undefined
}

export function readHostCounters(): HostCounters {
  return { cpuUsec: readBusyUsec(), ...readUplinkBytes(), ...readDiskBytes() }
}

/** Reads the busy time of all processors. Undefined: `cpus()` is empty, because the kernel's file cannot be read. */
function readBusyUsec(): number | undefined {
  const all = cpus()
  if (all.length === 0) return undefined
  return all.reduce((sum, { times }) => sum + (times.user + times.nice + times.sys + times.irq) * 1000, 0)
}

function readUplinkBytes(): Pick<HostCounters, 'rxBytes' | 'txBytes'> {
  const text = readKernelFile('/proc/net/dev')
  if (text === undefined) return { rxBytes: undefined, txBytes: undefined }
  let [rxBytes, txBytes] = [0, 0]
  for (const [name, bytes] of parseNetDev(text)) {
    // bonds are skipped, because the bytes of a bond are already counted at its interfaces
    if (!existsSync(`/sys/class/net/${name}/device`) || isVirtual(name)) continue
    rxBytes += bytes.rxBytes
    txBytes += bytes.txBytes
  }
  return { rxBytes, txBytes }
}

function readDiskBytes(): Pick<HostCounters, 'readBytes' | 'writeBytes'> {
  const disks = new Set(listDirectory('/sys/block').filter((name) => existsSync(`/sys/block/${name}/device`)))
  const text = readKernelFile('/proc/diskstats')
  return text === undefined ? { readBytes: undefined, writeBytes: undefined } : sumDisks(text, disks)
}

const sectorBytes = 512

/** Sums the bytes of disks in /proc/diskstats (kernel: admin-guide/iostats.rst), which counts sectors of 512 bytes. */
export function sumDisks(text: string, disks: ReadonlySet<string>): { readBytes: number; writeBytes: number } {
  let [read, written] = [0, 0]
  for (const line of text.split('\n')) {
    const [, , name = '', , , sectorsRead, , , , sectorsWritten] = line.trim().split(/\s+/)
    if (!disks.has(name)) continue
    read += Number(sectorsRead)
    written += Number(sectorsWritten)
  }
  return { readBytes: read * sectorBytes, writeBytes: written * sectorBytes }
}
