import type { Logger } from 'pino'
import type { GetSwapResponse, HostDescription, HostServiceServer } from '../../proto/gen/berth/agent/v1/host.js'
import type { HistoryReader } from '../history/history.js'
import type { AgentPackages } from '../upgrade/contract.js'
import { parseUpgrade } from '../upgrade/parse-order.js'
import type { HostSwap, SwapState } from '../swap/contract.js'
import { currentOf } from '../swap/plan.js'
import { parseJoinToken } from '../../shared/join-token.js'
import { encodeHistory, parseRange } from './encode-history.js'
import { unary } from './unary.js'

export interface HostServiceParts {
  readonly describe: () => HostDescription
  readonly swap: Pick<HostSwap, 'read'>
  readonly history: HistoryReader
  readonly upgrade: UpgradeParts
  readonly log: Logger
}

export interface UpgradeParts {
  readonly packages: AgentPackages
  /** @throws {BerthError} if another version must not be installed at present */
  readonly refuse: () => void
  /** Returns the trusted CA with this fingerprint, or else the CA that issued the host's certificate. Both in PEM. */
  readonly readAuthority: (fingerprint: string) => string
}

export function createHostService({ describe, swap, history, upgrade, log }: HostServiceParts): HostServiceServer {
  return {
    describe: unary(log, 'describe the host', () => ({ host: describe() })),
    getSwap: unary(log, 'read swap', async () => encodeSwap(await swap.read())),
    getHostHistory: unary(log, 'read history', ({ range }) => ({
      history: encodeHistory(history.readHost(parseRange(range))),
    })),
    upgradeAgent: unary(log, 'upgrade the agent', async (request) => {
      const order = parseUpgrade(request)
      upgrade.refuse()
      // The join endpoint uses the CA that the token names. During a rotation, the host may have another CA.
      await upgrade.packages.start(order, upgrade.readAuthority(parseJoinToken(order.token).caFingerprint))
      return {}
    }),
  }
}

function encodeSwap(state: SwapState): GetSwapResponse {
  const own = currentOf(state)
  return {
    totalBytes: state.totalBytes,
    usedBytes: state.usedBytes,
    enabled: own?.active ?? false,
    file: own?.path ?? '',
    fileBytes: own?.sizeBytes ?? 0,
  }
}
