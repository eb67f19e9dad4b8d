import type { CreateGuest } from '../../api/types.ts'
import { hasRules, placementForm, planPlacement, type PlacementForm } from '../../guests/placement.ts'
import { presetFirewall, type FirewallPreset } from '../../guests/firewall-presets.ts'
import { splitWords } from '../../ui/words.ts'

/** Content of the form for a new guest. `planRequest` converts it to a request. */
export interface CreateForm {
  name: string
  /** Number of guests. Several guests are named NAME-1, NAME-2 and so on. */
  count: number
  virtualization: 'lxc' | 'kvm'
  image: string
  vcpu: number
  ramMb: number
  diskGb: number
  host: string
  ports: number
  ipv4: number
  ipv6: number
  login: 'auto_password' | 'password' | 'key'
  /** Password of the user's choice. */
  password: string
  /** False: the guest stays stopped after its creation. */
  starts: boolean
  publicKey: string
  downMbps: number
  upMbps: number
  trafficGb: number
  /** Time in the form of the API. Empty: the guest does not expire. */
  expiresAt: string
  snapshots: number
  placement: PlacementForm
  /** The tags are separated by spaces. */
  tags: string
  /** First-boot data of a virtual machine. */
  userData: string
  /** Id of the customer who gets the guests. Empty: nobody. */
  owner: string
  /** Empty: all connections are accepted. */
  firewall: FirewallPreset | ''
  /** Id of the target of daily backups. Empty: there are no backups. */
  backupTarget: string
}

export const emptyForm: CreateForm = {
  name: '',
  count: 1,
  virtualization: 'lxc',
  image: '',
  vcpu: 1,
  ramMb: 1024,
  diskGb: 10,
  host: '',
  ports: 2,
  ipv4: 0,
  ipv6: 0,
  login: 'auto_password',
  password: '',
  starts: true,
  publicKey: '',
  downMbps: 0,
  upMbps: 0,
  trafficGb: 0,
  expiresAt: '',
  snapshots: 3,
  placement: placementForm(),
  tags: '',
  userData: '',
  owner: '',
  firewall: '',
  backupTarget: '',
}

/** Fields of the API that belong to the closed part of the form. */
export const moreFields: ReadonlySet<string> = new Set([
  'host_id',
  'port_mapping_count',
  'ipv4_count',
  'ipv6_count',
  'network_down_mbps',
  'network_up_mbps',
  'monthly_traffic_gb',
  'snapshot_limit',
  'expires_at',
  'tags',
])

/** Fields of the API at which the form shows an error. */
export const shownFields: ReadonlySet<string> = new Set([
  ...moreFields,
  'name',
  'count',
  'vcpu',
  'ram_mb',
  'disk_gb',
  'ssh_public_key',
  'ssh_password',
  'firewall',
  'owner_id',
  'backup_schedule.target_id',
  'user_data',
])

/** Predefined sizes of a guest: number of CPUs, memory in MiB and disk in GiB. */
export const sizes = [
  { id: 'S', vcpu: 1, ramMb: 1024, diskGb: 10 },
  { id: 'M', vcpu: 2, ramMb: 2048, diskGb: 20 },
  { id: 'L', vcpu: 4, ramMb: 4096, diskGb: 40 },
  { id: 'XL', vcpu: 8, ramMb: 8192, diskGb: 80 },
] as const

const dailyBackups = { interval_hours: 24, time: '03:00', retention: 7 } as const

/** Converts the form's content to the request for one guest. Fields without a value are omitted. */
export function planRequest(form: CreateForm): CreateGuest {
  const when = <T>(given: boolean, fields: T): T | object => (given ? fields : {})
  return {
    name: form.name.trim(),
    virtualization: form.virtualization,
    template_id: form.image,
    vcpu: form.vcpu,
    ram_mb: form.ramMb,
    disk_gb: form.diskGb,
    ...when(form.host !== '', { host_id: form.host }),
    assign_nat: form.ports > 0,
    ...when(form.ports > 0, { port_mapping_count: form.ports }),
    ...when(form.ipv4 > 0, { assign_ipv4: true, ipv4_count: form.ipv4 }),
    ...when(form.ipv6 > 0, { assign_ipv6: true, ipv6_count: form.ipv6 }),
    ssh_auth_mode: form.login,
    ...when(!form.starts, { start: false }),
    ...when(form.login === 'password', { ssh_password: form.password }),
    ...when(form.login === 'key', { ssh_public_key: form.publicKey.trim() }),
    ...when(form.downMbps > 0, { network_down_mbps: form.downMbps }),
    ...when(form.upMbps > 0, { network_up_mbps: form.upMbps }),
    ...when(form.trafficGb > 0, { monthly_traffic_gb: form.trafficGb }),
    ...when(form.expiresAt !== '', { expires_at: form.expiresAt }),
    snapshot_limit: form.snapshots,
    ...when(hasRules(form.placement), { placement: planPlacement(form.placement) }),
    ...when(form.tags.trim() !== '', { tags: splitWords(form.tags) }),
    ...when(form.owner !== '', { owner_id: Number(form.owner) }),
    ...when(form.backupTarget !== '', { backup_schedule: { ...dailyBackups, target_id: form.backupTarget } }),
    ...(form.firewall === '' ? {} : { firewall: presetFirewall(form.firewall) }),
    ...when(form.virtualization === 'kvm' && form.userData.trim() !== '', { user_data: form.userData }),
  }
}

/**
 * Returns the request as a shell command. It has no password of the user.
 * @param origin origin of the gateway, such as `https://panel.example`
 * @param count number of guests
 */
export function curlLine(origin: string, body: CreateGuest, count = 1): string {
  const shown = { ...body, ...(body.ssh_password && { ssh_password: 'PASSWORD' }), ...(count > 1 && { count }) }
  const quoted = JSON.stringify(shown, null, 2).replaceAll("'", String.raw`'\''`)
  return [
    'curl -X POST',
    `${origin}/api/v1/${count > 1 ? 'batch-create' : 'containers'}`,
    `-H "X-API-Key: $BERTH_KEY"`,
    `-H 'Content-Type: application/json'`,
    `-d '${quoted}'`,
  ].join(' \\\n  ')
}
