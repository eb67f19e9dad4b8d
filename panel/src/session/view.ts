import { api, send } from '../api/client.ts'
import { forgetUnsaved } from '../ui/unsaved.ts'
import { changeTabs } from './tabs.ts'

/* The panel as a customer sees it. All tabs of the browser share the session, so all of them load the panel again. */

/** Shows the panel as a customer, until the administrator returns. */
export async function viewAs(id: number): Promise<void> {
  await send(() => api.POST('/sub-users/{id}/view', { params: { path: { id } } }))
  start('')
}

/** Shows the panel as the administrator again. */
export async function returnFromView(): Promise<void> {
  await send(() => api.POST('/session/return'))
  start('#/sub-users')
}

function start(hash: string): void {
  forgetUnsaved()
  changeTabs()
  history.replaceState(null, '', `/${hash}`)
  location.reload()
}
