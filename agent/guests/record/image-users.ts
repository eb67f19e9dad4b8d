import type { OperationStore } from '../../operations/operation-store.js'
import type { GuestStore } from './guest-store.js'

interface Stores {
  readonly operations: OperationStore
  readonly guests: GuestStore
}

/** Input of a reinstall (`templateId`), or of a change of the boot source (`image`). */
interface Input {
  readonly templateId?: string
  readonly image?: string
}

/**
 * True if a guest has the template's image as its CD, or if an unfinished operation needs the image. Such an operation
 * creates a guest, a disk or a boot source.
 */
export function isImageUsed({ operations, guests }: Stores, templateId: string): boolean {
  if (guests.list().some(({ boot }) => boot.mode === 'cdrom' && boot.image === templateId)) return true
  return operations.listOpen().some(({ id, action, subject }) => {
    if (action === 'create') return guests.find(subject.id)?.spec.templateId === templateId
    if (action !== 'reinstall' && action !== 'boot') return false
    const input = operations.findJournaled(id)?.input as Input | undefined
    return (input?.templateId ?? input?.image) === templateId
  })
}

/** True if an unfinished operation creates the template's image. */
export function isImageOrdered({ operations }: Stores, templateId: string): boolean {
  return operations.listOpen().some(({ subject: { kind, id } }) => kind === 'image' && id === templateId)
}
