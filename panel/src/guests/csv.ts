import type { Guest } from '../api/types.ts'

const fields = {
  id: ({ id }) => id,
  uuid: ({ uuid }) => uuid,
  name: ({ name }) => name,
  type: ({ virtualization }) => virtualization,
  status: ({ status }) => status,
  policy: ({ policy = '' }) => policy,
  image: ({ template }) => template,
  vcpu: ({ vcpu }) => vcpu,
  ram_mb: ({ ram_mb: mb }) => mb,
  disk_gb: ({ disk_gb: gb }) => gb,
  ip: ({ ip }) => ip,
  public_ipv4s: ({ public_ipv4s: list }) => list.join(' '),
  ipv6_addresses: ({ ipv6_addresses: list }) => list.join(' '),
  ssh_port: ({ ssh_port: port }) => port || '',
  monthly_traffic_gb: ({ monthly_traffic_gb: gb }) => gb || '',
  owners: ({ owners = [] }) => owners.map(({ username }) => username).join(' '),
  created_at: ({ created_at: at }) => at,
  expires_at: ({ expires_at: at }) => at,
} satisfies Record<string, (guest: Guest) => string | number>

/** Formats guests as CSV (RFC 4180). The columns are named like the API's fields. The column `host` is added. */
export function guestsAsCsv(guests: readonly Guest[], hostName: (id: string) => string): string {
  const head = [...Object.keys(fields), 'host']
  const rows = guests.map((guest) => [...Object.values(fields).map((read) => read(guest)), hostName(guest.host_id)])
  return csvOf([head, ...rows])
}

/** Formats rows of values as CSV (RFC 4180). */
export function csvOf(rows: readonly (readonly (string | number | boolean)[])[]): string {
  return rows.map((row) => row.map(cell).join(',') + '\r\n').join('')
}

/** Quotes a value. An apostrophe precedes text that spreadsheets would run as a formula, such as `=1+1`. */
function cell(value: string | number | boolean): string {
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
