import { formatTable, type Row } from '../output/table.js'
import { sizeText } from '../output/sizes.js'
import { cutTo, printable } from '../output/width.js'
import type { FleetUsage, GuestUsage, HostUsage } from './usage.js'

/* This module derives tables and screens from the usage of the fleet. */

const hostColumns = ['host', 'status', 'cpu_%', 'memory', 'memory_%', 'disk', 'disk_%', 'guests']
const guestColumns = ['id', 'guest', 'cpu_%', 'memory', 'disk', 'traffic']
const mib = 2 ** 20
const gib = 2 ** 30

export interface Screen {
  readonly width: number
  readonly height: number
  /** URL of the gateway. */
  readonly title: string
  /** Time of day, or the reason why the usage is not up to date. */
  readonly note: string
}

/** Returns tables of hosts and guests, sorted by processor usage. @param width undefined: no limit */
export function planTables(usage: FleetUsage, width: number | undefined): string {
  const hosts = hostRows(usage)
  const guests = formatTable(sorted(usage.guests).map(guestRow), guestColumns, width)
  return hosts.length === 0 ? guests : `${formatTable(hosts, hostColumns, width)}\n${guests}`
}

/** Returns the lines of a screen. Guests that do not fit are left out. */
export function planScreen(usage: FleetUsage, { width, height, title, note }: Screen): string[] {
  const head = cutTo(printable(`Berth ${title}  ${note}  q: quit`), width)
  return [head, '', ...planTables(usage, width).trimEnd().split('\n')].slice(0, height)
}

function hostRows({ hosts = [], states = [] }: FleetUsage): Row[] {
  return sorted(hosts).map((host) => {
    const state = states.find(({ id }) => id === host.host_id)
    return {
      ...figuresOf(host),
      host: state?.name ?? host.host_id,
      status: state?.status,
      guests: state?.containers,
    }
  })
}

function figuresOf({
  cpu_usage_pct: cpu,
  ram_used_mb: ram,
  ram_total_mb,
  disk_used_gb: disk,
  disk_total_gb,
}: HostUsage): Row {
  return {
    'cpu_%': percentText(cpu),
    memory: sizeOf(ram, mib),
    'memory_%': percentText(ram === null ? null : (100 * ram) / ram_total_mb),
    disk: sizeOf(disk, gib),
    'disk_%': percentText(disk === null ? null : (100 * disk) / disk_total_gb),
  }
}

function guestRow(guest: GuestUsage): Row {
  return {
    id: String(guest.id),
    guest: guest.name,
    'cpu_%': percentText(guest.cpu_usage_pct),
    memory: sizeOf(guest.memory_usage_bytes),
    disk: sizeOf(guest.disk_usage_bytes),
    traffic: sizeOf(guest.traffic_used_bytes),
  }
}

/** Sorts by processor usage, the highest first. Rows of unknown usage are last. */
function sorted<T extends { readonly cpu_usage_pct: number | null }>(rows: readonly T[]): T[] {
  return [...rows].sort((a, b) => (b.cpu_usage_pct ?? -1) - (a.cpu_usage_pct ?? -1))
}

const percentText = (value: number | null): string | null =>
  value === null || !Number.isFinite(value) ? null : value.toFixed(1)

const sizeOf = (value: number | null, unit = 1): string | null => (value === null ? null : sizeText(value * unit))
