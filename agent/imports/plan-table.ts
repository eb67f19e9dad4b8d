import { stripVTControlCharacters } from 'node:util'
import type { ImportPlan } from './imports.js'

type Row = readonly [string, string]

/** Describes the plan of an import as two tables: the guest, and the parts of the container that it does not get. */
export function planTable({ name, spec, notes, source, usedBytes }: Omit<ImportPlan, never>): string {
  const { limits, portMappings, devices, start } = spec
  const guest: Row[] = [
    ['name', name],
    ['files', `${source.path} (${toGb(usedBytes)} GB)`],
    ['user ids', source.ids ? `shifted by ${source.ids.users[0]!.first - source.ids.users[0]!.shown}` : 'not shifted'],
    ['disk', `${limits?.diskGb} GB`],
    ['memory', `${limits?.ramMb} MB`],
    ['processors', `${(limits?.vcpuMilli ?? 0) / 1000}`],
    ['addresses', 'a private IPv4 address of this host'],
    ...portMappings.map((mapping): Row => ['port', describeMapping(mapping)]),
    ...devices.map((device): Row => ['device', device]),
    ['started', start ? 'yes' : 'no'],
  ]
  const lost = notes.map(({ part, reason }): Row => [part, reason])
  if (lost.length === 0) return table(['GUEST', ''], guest)
  return `${table(['GUEST', ''], guest)}\n${table(['NOT CARRIED OVER', 'REASON'], lost)}`
}

type Mapping = ImportPlan['spec']['portMappings'][number]

function describeMapping({
  protocol,
  hostIp,
  hostPort,
  hostPortEnd,
  containerPort,
  containerPortEnd,
}: Mapping): string {
  const at = hostIp === '' ? '' : `${hostIp}:`
  const host = hostPort === 0 ? 'a free host port' : `${protocol} ${at}${range(hostPort, hostPortEnd)}`
  return `${host} to ${protocol} ${range(containerPort, containerPortEnd)}`
}

function range(first: number, last: number): string {
  return last > first ? `${first}-${last}` : String(first)
}

function toGb(bytes: number): string {
  return (bytes / 1024 ** 3).toFixed(1)
}

const maxCellChars = 200

function table(head: Row, rows: readonly Row[]): string {
  const all = [head, ...rows].map(([first, second]): Row => [cell(first), cell(second)])
  const width = Math.max(...all.map(([first]) => first.length))
  return all.map(([first, second]) => `${first.padEnd(width)}  ${second}`.trimEnd()).join('\n') + '\n'
}

/** Texts come from the container's configuration, which can contain escape sequences for the terminal. */
function cell(text: string): string {
  return stripVTControlCharacters(text)
    .replace(/\p{Cc}/gu, ' ')
    .slice(0, maxCellChars)
}
