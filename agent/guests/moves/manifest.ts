import { Type, type TSchema } from 'typebox'
import type { BackupTarget } from '../../../proto/gen/berth/agent/v1/backup.js'
import { validateConfig } from '../../../shared/config.js'
import { checkFirewall } from '../../../shared/firewall-rules.js'
import { checkPortMapping } from '../../../shared/port-mapping-rules.js'
import type { Login } from '../../drivers/machine.js'
import type { BackupContext } from '../context.js'
import { parseTime } from '../parse-settings.js'
import type { MovedTraffic } from './move-input.js'
import type { GuestDocument, GuestRecord, PortMapping } from '../record/record.js'
import { noBackupSchedule } from '../record/snapshots-and-backups.js'

/** The fields of a guest's document that move with the guest. The others belong to the host or to operations. */
const movedFields = [
  'hasPassword',
  'firewall',
  'traffic',
  'expiresAtMs',
  'policy',
  'suspension',
  'security',
  'devices',
  'os',
  'snapshotLimit',
  'snapshots',
  'snapshotSchedule',
  'snapshotSpace',
  'backups',
  'backupSchedule',
  'extraBytes',
] as const satisfies readonly (keyof GuestDocument)[]
type MovedDocument = Pick<GuestDocument, (typeof movedFields)[number]>

/** Everything that belongs to a guest, except its disk. It contains secrets, and is only sent between agents. */
export interface Manifest {
  readonly document: MovedDocument
  readonly limits: GuestRecord['spec']['limits']
  readonly login: Login | null
  /** Target of the backup schedule. */
  readonly backupTarget: BackupTarget | null
  readonly portMappings: readonly PortMapping[]
  readonly publicIpv4s: readonly string[]
  readonly ipv6Addresses: readonly string[]
  readonly trafficCount: MovedTraffic | null
  /** True if the guest runs again on the target. */
  readonly isWanted: boolean
}

const number = Type.Number({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const text = Type.String({ maxLength: 2000 })
const stored = Type.Object({
  id: Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,62}$' }),
  createdAtMs: number,
  createdBy: text,
  scheduled: Type.Boolean(),
  sizeBytes: number,
  description: text,
  state: Type.Literal('ready'),
})
const schedule = Type.Object({
  enabled: Type.Boolean(),
  intervalHours: number,
  time: text,
  retention: number,
  firstDay: text,
  createdBy: text,
  lastRunMs: number,
  nextRunMs: number,
})
const words = (...values: string[]) => Type.Union(values.map((value) => Type.Literal(value)))
const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])

const manifestSchema = Type.Object({
  document: Type.Object({
    hasPassword: Type.Boolean(),
    firewall: Type.Object({ rules: Type.Array(Type.Unknown(), { maxItems: 1000 }) }),
    traffic: Type.Object({
      mode: words('total', 'split'),
      monthlyGb: number,
      inGb: number,
      outGb: number,
      action: words('stop', 'throttle', 'none'),
      throttleMbps: number,
      resetDay: number,
    }),
    expiresAtMs: number,
    policy: Type.Object({ expired: Type.Boolean(), overQuota: Type.Boolean(), abuse: Type.Optional(text) }),
    suspension: nullable(
      Type.Object({
        mode: words('stop', 'network'),
        reason: text,
        message: text,
        sinceMs: number,
        untilMs: number,
        resumes: Type.Boolean(),
      }),
    ),
    security: Type.Object({ exempt: Type.Boolean(), smtp: words('default', 'open', 'closed') }),
    devices: Type.Array(words('tun', 'fuse'), { maxItems: 16 }),
    os: words('linux', 'windows'),
    snapshotLimit: number,
    snapshots: Type.Array(stored, { maxItems: 1000 }),
    snapshotSchedule: schedule,
    snapshotSpace: Type.Object({
      limitBytes: number,
      retainedBytes: number,
      allowanceBytes: number,
      isMeasured: Type.Boolean(),
    }),
    backups: Type.Array(stored, { maxItems: 1000 }),
    backupSchedule: schedule,
    extraBytes: number,
  }),
  login: nullable(Type.Object({})),
  backupTarget: nullable(Type.Object({})),
  portMappings: Type.Array(Type.Unknown(), { maxItems: 1000 }),
  publicIpv4s: Type.Array(text, { maxItems: 256 }),
  ipv6Addresses: Type.Array(text, { maxItems: 256 }),
  trafficCount: nullable(Type.Object({ periodStart: text, periodLeft: text, rxBytes: number, txBytes: number })),
  isWanted: Type.Boolean(),
})

/** Collects the manifest of a guest that has been stopped for its move. */
export function makeManifest(
  { logins, targets }: Pick<BackupContext, 'logins' | 'targets'>,
  record: GuestRecord,
  { trafficCount, isWanted }: Pick<Manifest, 'trafficCount' | 'isWanted'>,
): Manifest {
  const { uuid, login, backupSchedule } = record
  return {
    document: {
      ...movedPart(record),
      snapshots: record.snapshots.filter(({ state }) => state === 'ready'),
      backups: record.backups.filter(({ state }) => state === 'ready'),
      backupSchedule: { ...backupSchedule, target: '' },
    },
    limits: record.spec.limits,
    login: login === null ? null : logins.open(record),
    backupTarget: backupSchedule.target === '' ? null : targets.open(uuid, backupSchedule.target),
    portMappings: record.portMappings,
    publicIpv4s: record.publicIpv4s,
    ipv6Addresses: record.ipv6Addresses,
    trafficCount,
    isWanted,
  }
}

/** Checks a manifest of another host. @throws {ConfigError | BerthError} if it is malformed */
export function parseManifest(raw: string): Manifest {
  const manifest = validateConfig(manifestSchema, JSON.parse(raw), 'manifest') as unknown as Manifest
  const { firewall, expiresAtMs } = manifest.document
  parseTime('expires_at', expiresAtMs)
  const rules = checkFirewall(firewall).rules.map((rule, index) => ({ ...rule, id: firewall.rules[index]?.id ?? '' }))
  for (const mapping of manifest.portMappings) checkPortMapping(mapping)
  return { ...manifest, document: { ...manifest.document, firewall: { ...checkFirewall(firewall), rules } } }
}

/** Returns the document and the login of a guest that has arrived, sealed with this host's key. */
export function sealManifest(
  { logins, targets }: Pick<BackupContext, 'logins' | 'targets'>,
  uuid: string,
  { document, login, backupTarget }: Manifest,
): { readonly document: MovedDocument; readonly login: string | null } {
  const target = backupTarget === null ? noBackupSchedule.target : targets.seal(uuid, backupTarget)
  return {
    document: { ...movedPart(document), backupSchedule: { ...document.backupSchedule, target } },
    login: login === null ? null : logins.seal(uuid, login),
  }
}

/** Picks the fields that move, since another host may send more. */
function movedPart(document: MovedDocument): MovedDocument {
  return Object.fromEntries(movedFields.map((field) => [field, document[field]])) as unknown as MovedDocument
}
