import type { Logger } from 'pino'
import type { Alert, SecurityLog, SecurityServiceServer } from '../../proto/gen/berth/agent/v1/security.js'
import type { RecordedFlow, OpenedFlow } from '../abuse/contract.js'
import type { AbuseWatch } from '../abuse/abuse-watch.js'
import type { AlertRecord } from '../abuse/alert-store.js'
import type { Changes } from '../state/changes.js'
import { unary } from './unary.js'

export interface SecurityServiceParts {
  readonly abuse: AbuseWatch
  readonly changes: Changes
  readonly log: Logger
}

export function createSecurityService({ abuse, changes, log }: SecurityServiceParts): SecurityServiceServer {
  const { shutdown } = abuse
  const settings = () => ({ autoShutdown: shutdown.enabled })
  return {
    getSecuritySettings: unary(log, 'read security settings', () => ({ settings: settings() })),
    setSecuritySettings: unary(log, 'set security settings', async (request) => {
      const { canceledStops, clearedBlocks } = await shutdown.set(request.settings?.autoShutdown ?? false)
      return {
        settings: settings(),
        canceledStops: [...canceledStops],
        clearedBlocks: [...clearedBlocks],
        revision: changes.revision,
      }
    }),
    checkSecurity: unary(log, 'check security', async ({ uuid }) => ({
      ...(await abuse.check(uuid)),
      revision: changes.revision,
    })),
    getSecurityLogs: unary(log, 'read security logs', async ({ uuid }) => ({
      logs: uuid === '' ? hostLogs(abuse) : await guestLogs(abuse, uuid),
    })),
  }
}

function hostLogs(abuse: AbuseWatch): SecurityLog[] {
  return abuse.readHostLogs().map(({ uuid, row }) => encodeRow(row, uuid, abuse.addressOf(uuid, row.target)))
}

/** Returns the recorded and present connections of a guest. @throws {BerthError} `not_found` */
async function guestLogs(abuse: AbuseWatch, uuid: string): Promise<SecurityLog[]> {
  const { rows, flows } = await abuse.readLogs(uuid)
  return [
    ...flows.map((flow) => encodeFlow(flow, uuid)),
    ...rows.map((row) => encodeRow(row, uuid, abuse.addressOf(uuid, row.target))),
  ]
}

export function encodeAlert({
  criticalAtMs: _critical,
  suspicion: _suspicion,
  moved = false,
  ...alert
}: AlertRecord): Alert {
  return { ...alert, moved }
}

type TimedFlow = { readonly atMs: number; readonly flow: OpenedFlow }

function encodeFlow({ atMs, flow }: TimedFlow, guestUuid: string): SecurityLog {
  return {
    guestUuid,
    srcIp: flow.source,
    dstIp: flow.target,
    srcPort: flow.sourcePort,
    dstPort: flow.targetPort,
    protocol: flow.protocol,
    state: flow.state,
    atMs,
  }
}

const states = { opened: 'OPENED', refused: 'REFUSED', unanswered: 'UNREPLIED', answered: 'REPLIED' } as const

/** Encodes recorded flows of a guest. The source port is 0, because source ports are not recorded. */
function encodeRow(
  { target, port, protocol, outcome, atMs }: RecordedFlow,
  guestUuid: string,
  source: string,
): SecurityLog {
  const state = states[outcome]
  return { srcIp: source, dstIp: target, srcPort: 0, dstPort: port, protocol, state, atMs, guestUuid }
}
