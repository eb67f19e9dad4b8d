import { api, ask } from '../api/client.ts'
import { t } from '../i18n/text.svelte.ts'
import { session } from '../session/session.svelte.ts'

/** Hours for which deletions can be undone. Only administrators of access may read them. */
export class UndoHours {
  /** undefined: not known. 0: deletions cannot be undone. */
  hours = $state<number | undefined>()

  async read(): Promise<void> {
    if (!session.may('admin:access')) return
    try {
      this.hours = (await ask(() => api.GET('/deletion-settings'))).undo_delete_hours
    } catch {
      this.hours = undefined
    }
  }

  /** Describes the deletion of one guest or of several guests. It promises nothing if the hours are not known. */
  text(several = false): string {
    if (this.hours === undefined) return several ? t('bulk.delete.text') : t('guest.delete.all')
    if (this.hours === 0) return t('guest.delete.text')
    return t(several ? 'bulk.delete.undoText' : 'guest.delete.undoText', { count: this.hours })
  }
}
