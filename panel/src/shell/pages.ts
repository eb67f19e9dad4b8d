import Boxes from '@lucide/svelte/icons/boxes'
import Archive from '@lucide/svelte/icons/archive'
import CalendarClock from '@lucide/svelte/icons/calendar-clock'
import Camera from '@lucide/svelte/icons/camera'
import Gauge from '@lucide/svelte/icons/gauge'
import HardDrive from '@lucide/svelte/icons/hard-drive'
import KeyRound from '@lucide/svelte/icons/key-round'
import ListChecks from '@lucide/svelte/icons/list-checks'
import Network from '@lucide/svelte/icons/network'
import ScrollText from '@lucide/svelte/icons/scroll-text'
import Server from '@lucide/svelte/icons/server'
import Settings from '@lucide/svelte/icons/settings'
import ShieldAlert from '@lucide/svelte/icons/shield-alert'
import User from '@lucide/svelte/icons/user'
import Users from '@lucide/svelte/icons/users'
import Waypoints from '@lucide/svelte/icons/waypoints'
import Webhook from '@lucide/svelte/icons/webhook'
import wrap from 'svelte-spa-router/wrap'
import type { Key } from '../i18n/text.svelte.ts'
import { loadComponent } from '../ui/load-component.ts'

export interface NavPage {
  readonly path: string
  readonly label: Key
  readonly icon: typeof Boxes
  /** Scope that a user needs to see the page. If absent, every user sees it. */
  readonly scope?: string
  /** True if only administrators see the page. Other users do not see it, even if they have its scope. */
  readonly admin?: boolean
  /** True if only customers see the page. */
  readonly customer?: boolean
}

export const navGroups: readonly { readonly label: Key; readonly pages: readonly NavPage[] }[] = [
  {
    label: 'nav.group.guests',
    pages: [
      { path: '/', label: 'nav.overview', icon: Gauge },
      { path: '/containers', label: 'nav.guests', icon: Boxes, scope: 'container:read' },
      { path: '/snapshots', label: 'nav.snapshots', icon: Camera, scope: 'snapshot:read', admin: true },
      { path: '/backups', label: 'nav.backups', icon: Archive, scope: 'backup:read', admin: true },
      { path: '/schedules', label: 'nav.schedules', icon: CalendarClock, scope: 'container:read', admin: true },
      { path: '/tasks', label: 'nav.tasks', icon: ListChecks, scope: 'task:read' },
    ],
  },
  {
    label: 'nav.group.fleet',
    pages: [
      { path: '/hosts', label: 'nav.hosts', icon: Server, scope: 'host:read', admin: true },
      { path: '/gateways', label: 'nav.gateways', icon: Waypoints, scope: 'host:read', admin: true },
      { path: '/images', label: 'nav.images', icon: HardDrive, scope: 'image:read', admin: true },
      { path: '/routing', label: 'nav.routing', icon: Network, scope: 'routing:read', admin: true },
      { path: '/security', label: 'nav.security', icon: ShieldAlert, scope: 'security:read', admin: true },
    ],
  },
  {
    label: 'nav.group.access',
    pages: [
      { path: '/sub-users', label: 'nav.customers', icon: Users, scope: 'subuser:read', admin: true },
      { path: '/api', label: 'nav.keys', icon: KeyRound, scope: 'apikey:read', admin: true },
      { path: '/webhooks', label: 'nav.webhooks', icon: Webhook, scope: 'webhook:manage', admin: true },
      { path: '/logs', label: 'nav.logs', icon: ScrollText, scope: 'audit:read', admin: true },
      { path: '/settings', label: 'nav.settings', icon: Settings, scope: 'admin:access', admin: true },
      { path: '/activity', label: 'nav.activity', icon: ScrollText, customer: true },
      { path: '/account', label: 'nav.account', icon: User },
    ],
  },
]

type Load = () => Promise<{ default: unknown }>
const page = (load: Load) => wrap({ asyncComponent: (() => loadComponent(load)) as never })

/** All pages. Each page is loaded when it is first shown. */
export const routes = {
  '/': page(() => import('../pages/overview/Overview.svelte')),
  '/containers': page(() => import('../pages/guests/Guests.svelte')),
  '/containers/new': page(() => import('../pages/create/CreateGuest.svelte')),
  '/containers/:id': page(() => import('../pages/guest/GuestPage.svelte')),
  '/containers/:id/:tab': page(() => import('../pages/guest/GuestPage.svelte')),
  '/hosts': page(() => import('../pages/hosts/Hosts.svelte')),
  '/hosts/:id': page(() => import('../pages/hosts/HostPage.svelte')),
  '/gateways': page(() => import('../pages/gateways/Gateways.svelte')),
  '/images': page(() => import('../pages/images/Images.svelte')),
  '/snapshots': page(() => import('../pages/Snapshots.svelte')),
  '/backups': page(() => import('../pages/backups/Backups.svelte')),
  '/schedules': page(() => import('../pages/schedules/Schedules.svelte')),
  '/tasks': page(() => import('../pages/Tasks.svelte')),
  '/routing': page(() => import('../pages/routing/RoutingPage.svelte')),
  '/security': page(() => import('../pages/Security.svelte')),
  '/sub-users': page(() => import('../pages/customers/Customers.svelte')),
  '/sub-users/:id': page(() => import('../pages/customers/CustomerPage.svelte')),
  '/api': page(() => import('../pages/keys/Keys.svelte')),
  '/cli-login': page(() => import('../pages/keys/CliLogin.svelte')),
  '/webhooks': page(() => import('../pages/webhooks/Webhooks.svelte')),
  '/webhooks/:id': page(() => import('../pages/webhooks/WebhookPage.svelte')),
  '/activity': page(() => import('../pages/Activity.svelte')),
  '/logs': page(() => import('../pages/Logs.svelte')),
  '/settings': page(() => import('../pages/settings/Settings.svelte')),
  '/account': page(() => import('../pages/account/Account.svelte')),
  '*': page(() => import('../pages/NotFound.svelte')),
}
