import { ServerInterceptingCall, type Metadata, type ServerInterceptor } from '@grpc/grpc-js'
import { invalidField } from '../../shared/errors.js'
import { fenceKey, judgeEpoch, parseFence, staleEpoch, type Fence } from '../../shared/fence.js'
import { toStatus } from '../../shared/grpc-errors.js'
import type { Database } from '../state/database.js'
import { findSetting, putSetting } from '../state/settings-table.js'

/** Stores, in the journal, the highest epoch that the agent has seen for each lease (see shared/fence.ts). */
export class Fences {
  constructor(private readonly db: Database) {}

  /**
   * Checks the epoch of a call. A new highest epoch is stored durably before the call is executed.
   * @throws {BerthError} `stale_epoch`
   */
  pass({ work, epoch }: Fence): void {
    const key = `fence:${work}`
    const highest = Number(findSetting(this.db, key) ?? 0)
    const verdict = judgeEpoch(highest, epoch)
    if (verdict === 'stale') throw staleEpoch({ work, epoch }, highest)
    if (verdict === 'newer') putSetting(this.db, key, String(epoch))
  }
}

/** Server interceptor that refuses calls with a stale fence, so that no handler can forget the check. */
export function fenceCalls(fences: Fences): ServerInterceptor {
  return (_method, call) =>
    new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          onReceiveMetadata: (metadata, proceed) => {
            try {
              for (const fence of fencesOf(metadata)) fences.pass(fence)
            } catch (error) {
              return call.sendStatus(toStatus(error))
            }
            proceed(metadata)
          },
        }),
    })
}

/** @throws {BerthError} `invalid_field` for a malformed fence, because a call without its fence would run unchecked */
function fencesOf(metadata: Metadata): Fence[] {
  return metadata.get(fenceKey).map((text) => {
    const fence = parseFence(String(text))
    if (!fence) throw invalidField(fenceKey, `${fenceKey}: must consist of the name of a lease and an epoch`)
    return fence
  })
}
