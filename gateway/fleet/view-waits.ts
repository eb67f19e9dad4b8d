import type { OperationView, OrderedOperation } from './contract.js'
import { isEnded } from './lists/operation-table.js'
import type { HostRevision } from '../store/visibility-message.js'
import type { FleetState } from './view.js'

/** Waits for revisions and operations in the view. Each wait also ends at its timeout or when the host goes offline. */
export class ViewWaits {
  constructor(
    private readonly view: FleetState,
    private readonly callTimeoutMs: number,
  ) {}

  /** Waits until the view contains this revision of the host's journal. @param timeoutMs default: the call timeout */
  async revision({ hostId, revision }: HostRevision, timeoutMs: number = this.callTimeoutMs): Promise<void> {
    const isOver = (): boolean => {
      const host = this.view.findState(hostId)
      return !host?.online || host.shownRevision >= revision
    }
    await this.view.hostChanged.wait(hostId, timeoutMs, isOver)
  }

  /** @returns the operation as the view shows it after the wait. undefined: the view does not contain it */
  async ended({ hostId, operationId }: OrderedOperation, timeoutMs: number): Promise<OperationView | undefined> {
    const find = (): OperationView | undefined => this.view.findOperation(operationId)
    await this.view.operationChanged.wait(operationId, timeoutMs, () => {
      const known = find()
      return (known !== undefined && isEnded(known.operation)) || !this.view.findState(hostId)?.online
    })
    return find()
  }
}
