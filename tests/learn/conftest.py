"""What most of this room's tests stand on."""

from tests.learn.rig import opened_rig

r = opened_rig()
