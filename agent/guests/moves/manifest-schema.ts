import { Type, type TSchema } from 'typebox'
import type { Range } from '../../../shared/field-checks.js'
import { maxTags, notePattern, tagPattern } from '../../../shared/label-rules.js'
import { limits, maxUserDataLength, timeOfDayPattern } from '../../../shared/guest-rules.js'
import { networkLimits } from '../../../shared/network-limits.js'
import { hostLabelPattern, maxHostLabels, placementNamePattern } from '../../../shared/placement-rules.js'
import { suspensionTextPattern } from '../../../shared/suspension-rules.js'
import { lastTimeMs } from '../parse-settings.js'
import type { GuestDocument } from '../record/record.js'

/* Schema of a manifest from another host. Each number is limited to the range that the guest's setting permits. */

const within = ({ min, max }: Range) => Type.Integer({ minimum: min, maximum: max })
const upTo = (max: number) => within({ min: 0, max })
const words = (...values: string[]) => Type.Union(values.map((value) => Type.Literal(value)))
const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])

const bytes = upTo(Number.MAX_SAFE_INTEGER)
const time = upTo(lastTimeMs)
const text = Type.String({ maxLength: 2000 })
const longText = Type.String({ maxLength: maxUserDataLength })
const day = '\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])'
const optionalDay = Type.String({ pattern: `^(${day})?$` })

const copyFields = {
  id: Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,62}$' }),
  createdAtMs: time,
  createdBy: text,
  scheduled: Type.Boolean(),
  sizeBytes: bytes,
  description: text,
  state: Type.Literal('ready'),
}

const scheduleFields = {
  enabled: Type.Boolean(),
  intervalHours: upTo(limits.snapshotIntervalHours.max),
  time: Type.String({ pattern: `^$|${timeOfDayPattern}` }),
  firstDay: optionalDay,
  createdBy: text,
  lastRunMs: time,
  nextRunMs: time,
}

const traffic = Type.Object({
  mode: words('total', 'split'),
  monthlyGb: within(networkLimits.trafficGb),
  inGb: within(networkLimits.trafficGb),
  outGb: within(networkLimits.trafficGb),
  action: words('stop', 'throttle', 'none'),
  throttleMbps: within(limits.networkMbps),
  resetDay: within(networkLimits.resetDay),
})

const suspensionText = Type.String({ pattern: suspensionTextPattern })
const suspension = Type.Object({
  mode: words('stop', 'network'),
  reason: suspensionText,
  message: suspensionText,
  sinceMs: time,
  untilMs: time,
  resumes: Type.Boolean(),
})

const labels = Type.Object({
  tags: Type.Array(Type.String({ pattern: tagPattern }), { maxItems: maxTags }),
  note: Type.String({ pattern: notePattern }),
  deleteProtected: Type.Boolean(),
})

const placementName = Type.String({ pattern: placementNamePattern })
const placement = Type.Object({
  group: placementName,
  labels: Type.Array(Type.String({ pattern: hostLabelPattern }), { maxItems: maxHostLabels }),
  spread: placementName,
  together: placementName,
})

const policy = Type.Object({
  expired: Type.Boolean(),
  overQuota: Type.Boolean(),
  abuse: Type.Optional(text),
  stoppedForExpiryMs: Type.Optional(time),
  expiredForMs: Type.Optional(time),
})

const firewallRule = Type.Object({
  id: text,
  direction: text,
  protocol: text,
  action: text,
  network: text,
  sourceIp: text,
  port: text,
  description: text,
})

/** Fields of a guest's document that do not move with the guest. They belong to the host or to its operations. */
type StayingField = 'boot' | 'standby' | 'fetchedBytes' | 'nextExtraBytes' | 'atNextStart'
/** The part of a guest's JSON document that moves with the guest to another host. */
export type MovedDocument = Omit<GuestDocument, StayingField>

const documentFields = {
  hasPassword: Type.Boolean(),
  firewall: Type.Object({
    enabled: Type.Boolean(),
    defaultAction: text,
    rules: Type.Array(firewallRule, { maxItems: networkLimits.firewallRules }),
  }),
  traffic,
  expiresAtMs: time,
  policy,
  suspension: nullable(suspension),
  security: Type.Object({ exempt: Type.Boolean(), smtp: words('default', 'open', 'closed') }),
  labels: Type.Optional(labels),
  placement: Type.Optional(placement),
  deletion: Type.Optional(nullable(Type.Object({ sinceMs: time, untilMs: time, resumes: Type.Boolean() }))),
  devices: Type.Array(words('tun', 'fuse'), { maxItems: 16 }),
  os: words('linux', 'windows'),
  snapshotLimit: within(limits.snapshots),
  snapshots: Type.Array(Type.Object(copyFields), { maxItems: limits.snapshots.max }),
  snapshotSchedule: Type.Object({ ...scheduleFields, retention: within(limits.snapshots) }),
  snapshotSpace: Type.Object({
    limitBytes: within(limits.snapshotSpaceBytes),
    retainedBytes: bytes,
    allowanceBytes: bytes,
    isMeasured: Type.Boolean(),
  }),
  backups: Type.Array(
    Type.Object({
      ...copyFields,
      targetId: text,
      usedBytes: Type.Optional(bytes),
      storedBytes: bytes,
      verifiedAtMs: time,
    }),
    { maxItems: 1000 },
  ),
  backupSchedule: Type.Object({
    ...scheduleFields,
    retention: within(limits.backups),
    targetId: text,
    targetChangedAtMs: time,
    target: Type.Literal(''),
  }),
  extraBytes: bytes,
} satisfies Record<keyof MovedDocument, TSchema>
export const movedFields = Object.keys(documentFields) as (keyof MovedDocument)[]

const guestLimits = Type.Object({
  vcpuMilli: within(limits.vcpuMilli),
  ramMb: within(limits.ramMb),
  diskGb: within(limits.diskGb),
  networkDownMbps: within(limits.networkMbps),
  networkUpMbps: within(limits.networkMbps),
  ioReadMbps: within(limits.ioMbps),
  ioWriteMbps: within(limits.ioMbps),
  ioReadIops: Type.Optional(within(limits.iops)),
  ioWriteIops: Type.Optional(within(limits.iops)),
})

const login = Type.Object({
  password: Type.Optional(text),
  passwordHash: Type.Optional(text),
  publicKey: Type.Optional(longText),
  authorizedKeys: Type.Optional(Type.Array(longText, { maxItems: 10_000 })),
  userData: Type.Optional(longText),
})

const place = <K extends string, S extends TSchema>(kind: K, value: S) =>
  Type.Object({ $case: Type.Literal(kind), value })
const port = within(networkLimits.port)
const backupTarget = Type.Object({
  id: text,
  name: text,
  place: Type.Union([
    place('local', Type.Object({ path: text })),
    place('sftp', Type.Object({ host: text, port, user: text, path: text, privateKey: longText, hostKey: longText })),
    place(
      's3',
      Type.Object({
        endpoint: text,
        region: text,
        bucket: text,
        prefix: text,
        accessKeyId: text,
        secretAccessKey: text,
        caCertificate: longText,
      }),
    ),
  ]),
  password: text,
  verifyPercent: upTo(100),
})

const mappedPort = upTo(networkLimits.port.max)
const portMapping = Type.Object({
  protocol: words('tcp', 'udp'),
  hostIp: text,
  hostPort: mappedPort,
  hostPortEnd: mappedPort,
  containerPort: mappedPort,
  containerPortEnd: mappedPort,
  description: text,
})

export const manifestSchema = Type.Object({
  document: Type.Object(documentFields),
  limits: guestLimits,
  login: nullable(login),
  backupTarget: nullable(backupTarget),
  portMappings: Type.Array(portMapping, { maxItems: limits.portMappings.max }),
  publicIpv4s: Type.Array(text, { maxItems: networkLimits.addresses.max }),
  ipv6Addresses: Type.Array(text, { maxItems: networkLimits.addresses.max }),
  trafficCount: nullable(
    Type.Object({
      periodStart: Type.String({ pattern: `^${day}$` }),
      periodLeft: optionalDay,
      rxBytes: bytes,
      txBytes: bytes,
    }),
  ),
  isWanted: Type.Boolean(),
})
